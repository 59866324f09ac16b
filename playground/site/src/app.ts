// The state of the page, and what changes it. `App.draw` shows the whole state again.

import { count } from "./amounts.js";
import { Editor } from "./editor.js";
import { PAGE, engine, latest } from "./engine.js";
import { type Finding, edits, lineAt, marksOf } from "./explain.js";
import type { Inspection } from "./inspect.js";
import { LIST, type List, linkTo, listed, read, write } from "./list.js";
import { Located } from "./locate.js";
import { LABELS, TRIED } from "./panels.js";
import { type Stray, strays } from "./schema.js";
import { type Beginning, filled, isTooLong, keep, pack, putIntoAddress } from "./state.js";
import {
  PANELS,
  type Bounds,
  type Changing,
  type Example,
  type Outcome,
  type Overview,
  type Panel,
  type Panels,
  type Row,
  type State,
  type Trial,
} from "./types.js";
import type { Place } from "./view/verdicts.js";
import type { Command } from "./view/palette.js";
import { EFFECTS } from "./view/whatif.js";
import { zip } from "./zip.js";

/** Longer texts are evaluated when the keys rest, shorter ones at each key. */
const LONG = 100_000;
const REST = 250;
/** How long after the last key the address changes. */
const SETTLED = 500;

export const TABS = { overview: "Overview", workloads: "Workloads", quotas: "Quotas", "what-if": "What if" } as const;
export type Tab = keyof typeof TABS;

export interface Cluster {
  /** What is shown of which cluster: `prod`, or a file. */
  name: string;
  /** The name of the cluster's context; empty if nobody knows it. */
  context: string;
  /** Which part of the live cluster it is (the query of the page's address); none for a file. */
  scope: string | undefined;
  /** The whole snapshot of a file. A live cluster's objects are asked for by "What if" alone: no other view needs them. */
  text: string | undefined;
  inspection: Inspection;
  readAt: Date;
  /** What could not be read. */
  missed: string[];
  /** As the engine has it, once somebody asks what if. */
  opened?: { overview: Overview; loaded: Panels };
}

/** Proposed quotas and LimitRanges while they are made, and then. */
export interface Proposing {
  scope: string;
  asked: number;
  answer?: Bounds;
  problem?: string;
}

export interface Toast {
  text: string;
  tone: "good" | "bad";
  /** A text to be copied by hand. */
  field?: string;
}

export class App {
  panel: Panel = "objects";
  namespace = "";
  example: Example | undefined;
  from = 0;
  outcome: Outcome | undefined;
  trial: Trial | undefined;
  milliseconds = 0;
  /** Why there is no verdict. */
  failure: string | undefined;
  problems = new Map<Panel, number>();
  toast: Toast | undefined;
  theme = storedTheme();
  /** What a narrow window shows. */
  pane: "verdict" | "edit" = "verdict";

  tab: Tab = "overview";
  list: List = LIST;
  /** Quotas are shown as they should be. */
  isProposed = false;
  bounds: Proposing | undefined;
  isPaletteOpen = false;
  cluster: Cluster | undefined;
  /** Why a live cluster is not shown, or not as it is now. */
  clusterError: string | undefined;
  isReading = false;
  /** What the local server reads now: `Reading pods, 3 of 14`. */
  progress = "";

  readonly editor: Editor;
  readonly host = document.createElement("div");
  #timer = 0;
  #settled = 0;
  #toasted = 0;
  /** What was in the panels before a snapshot was opened. */
  #before: State | undefined;
  /** The fields that no reader knows, by panel; a panel is searched again when its text has changed. */
  #searched = new Map<Panel, { text: string; found: Stray[] }>();

  constructor(
    readonly examples: Example[],
    readonly isLive: boolean,
    private readonly render: (app: App) => void,
  ) {
    this.host.id = "editor";
    this.host.setAttribute("role", "tabpanel");
    this.editor = new Editor(this.host, "objects", () => this.changed());
    document.documentElement.dataset.theme = this.theme;
  }

  draw() {
    const place = this.cluster
      ? [this.list.at && this.tab === "workloads" ? this.list.at : TABS[this.tab], this.cluster.name]
      : [];
    document.title = [...place, "Headroom"].join(" · ");
    this.render(this);
  }

  get isCluster(): boolean {
    return this.isLive || this.cluster !== undefined;
  }

  state(): State {
    return { namespace: this.namespace.trim(), panels: filled((panel) => this.editor.text(panel)) };
  }

  // Verdicts

  #evaluate = latest(async (now: State) => {
    const { cluster } = this;
    try {
      if (cluster) {
        if (!cluster.opened) return;
        const { result, milliseconds } = await engine.simulate(now);
        if (this.cluster !== cluster) return;
        [this.trial, this.milliseconds, this.failure] = [result, milliseconds, undefined];
      } else {
        const { result, milliseconds } = await engine.evaluate(now, this.from);
        [this.outcome, this.milliseconds, this.failure] = [result, milliseconds, undefined];
      }
    } catch (error) {
      this.failure = (error as Error).message;
    }
    this.#mark();
    this.draw();
    document.documentElement.dataset.state = this.failure === undefined ? "evaluated" : "failed";
  });

  /** Evaluates the panels after a change. */
  evaluateSoon() {
    delete document.documentElement.dataset.state;
    this.from = 0;
    const now = this.state();
    const length = Object.values(now.panels).reduce((sum, text) => sum + text.length, 0);
    clearTimeout(this.#timer);
    if (length < LONG) this.#evaluate(now);
    else this.#timer = window.setTimeout(() => this.#evaluate(this.state()), REST);
  }

  turnTo = (row: number) => {
    this.from = row - (row % (this.cluster ? EFFECTS : PAGE));
    this.#evaluate(this.state());
  };

  /** The text changed. A cluster's objects are kept neither in the address nor in the browser's storage. */
  changed() {
    this.evaluateSoon();
    clearTimeout(this.#settled);
    if (this.isCluster) return;
    if (this.example) {
      this.example = undefined;
      this.draw();
    }
    this.#settled = window.setTimeout(() => void this.#remember(), SETTLED);
  }

  async #remember() {
    const packed = await pack(this.state());
    if (this.isCluster) return;
    putIntoAddress(packed);
    keep(packed);
  }

  /** Shows what is wrong at its place, and how much of it there is in which panel. */
  #mark() {
    const problems = (this.cluster ? this.trial?.problems : this.outcome?.problems) ?? [];
    const marks = new Map(PANELS.map((panel) => [panel, [] as ReturnType<typeof marksOf>]));
    for (const { panel, line, text } of problems) marks.get(panel)!.push({ line, severity: "error", text });
    const objects = this.editor.text("objects");
    if (!this.cluster && this.outcome && objects.trim() !== "" && objects.length < LONG)
      marks.get("objects")!.push(...marksOf(this.outcome.rows, this.outcome.details, objects));
    for (const panel of PANELS) {
      const text = this.editor.text(panel);
      if (text !== this.#searched.get(panel)?.text)
        this.#searched.set(panel, { text, found: text.length < LONG ? strays(panel, text) : [] });
      marks
        .get(panel)!
        .push(
          ...this.#searched
            .get(panel)!
            .found.map(({ line, text }) => ({ line: line + 1, severity: "warning" as const, text })),
        );
      this.problems.set(panel, problems.filter((problem) => problem.panel === panel).length);
    }
    this.editor.mark(marks);
  }

  place = (row: Row, finding: Finding): Place | undefined => {
    const found = this.#find(row, finding);
    return found && { line: lineAt(found.text, found.at.from), canBeMended: found.changes.length > 0 };
  };

  mend = (row: Row, finding: Finding) => {
    this.choose("objects");
    // Where it stands now, which need not be where it stood when the button was drawn.
    this.editor.edit(this.#find(row, finding)?.changes ?? []);
  };

  #find(row: Row, { fix }: Finding) {
    const text = this.editor.text("objects");
    if (!fix || text.length >= LONG) return undefined;
    const located = new Located(text, row.line);
    const at = located.resource(fix.container, fix.field) ?? located.name(fix.container);
    return at && { text, at, changes: edits(located, fix, text) };
  }

  // The editor

  load(wanted: State, panel: Panel = "objects") {
    this.namespace = wanted.namespace;
    this.editor.load(wanted.panels);
    this.choose(panel);
    clearTimeout(this.#settled);
    this.evaluateSoon();
  }

  choose = (panel: Panel) => {
    this.panel = panel;
    this.editor.show(panel);
    this.host.setAttribute("aria-labelledby", `tab-${panel}`);
    this.draw();
  };

  goTo = (panel: Panel, line: number) => {
    this.pane = "edit";
    this.choose(panel);
    this.editor.goTo(line);
  };

  loadExample(example: Example) {
    this.example = example;
    history.replaceState(null, "", `#example=${example.name}`);
    this.load(example);
  }

  begin({ state, example, problem }: Beginning) {
    if (problem) this.say(problem, "bad");
    if (example) return this.loadExample(example);
    this.example = undefined;
    this.load(state);
  }

  // Clusters and files

  /** Opens a file: a list of a cluster's objects as a snapshot, anything else as manifests. */
  async open(file: File) {
    const text = await file.text();
    const isSnapshot =
      /"kind":\s*"Snapshot"|^kind:\s*List\b/m.test(text) ||
      /^\s*\{\s*"apiVersion":\s*"v1",\s*"kind":\s*"List"|"kind":\s*"List"\s*,?\s*[^]{0,40}\}?\s*$/.test(text);
    if (!isSnapshot) {
      if (this.isCluster) this.leave();
      this.example = undefined;
      this.namespace = "";
      this.load({ ...this.state(), panels: { ...this.state().panels, objects: text } });
      this.#settled = window.setTimeout(() => void this.#remember(), SETTLED);
      return this.say(`${file.name} opened.`);
    }
    this.#before ??= this.state();
    try {
      await this.#inspect(file.name, undefined, text, []);
      this.show("#overview");
    } catch (error) {
      this.say(`${file.name} cannot be opened: ${(error as Error).message}`, "bad");
    }
  }

  async #inspect(name: string, scope: string | undefined, text: string, missed: string[]) {
    const { result: inspection, milliseconds } = await engine.inspect(text);
    const before = this.cluster?.scope === scope ? this.cluster : undefined;
    const { context } = inspection;
    this.cluster = {
      name: context || name,
      context,
      scope,
      text: scope === undefined ? text : undefined,
      inspection,
      readAt: new Date(),
      missed,
      ...(before?.opened ? { opened: before.opened } : {}),
    };
    this.milliseconds = milliseconds;
    clearTimeout(this.#settled);
    if (this.tab === "what-if" || before?.opened) await this.#openInEngine();
  }

  /** Gives the cluster to the engine, and its objects to the panels: those that were changed stay as they are. */
  async #openInEngine() {
    const cluster = this.cluster!;
    let overview: Overview;
    this.failure = undefined;
    try {
      ({ result: overview } = await engine.open(cluster.text ?? (await objectsOf(cluster))));
    } catch (error) {
      if (this.cluster === cluster) this.failure = (error as Error).message;
      return this.draw();
    }
    if (this.cluster !== cluster) return;
    const loaded: Panels = {
      limitRanges: overview.limitRanges,
      quotas: overview.quotaManifests,
      settings: overview.settings,
    };
    const { opened } = cluster;
    cluster.opened = { overview, loaded };
    if (opened)
      for (const panel of TRIED) {
        if (this.editor.text(panel) === (opened.loaded[panel] ?? "")) this.editor.replace(panel, loaded[panel] ?? "");
      }
    if (opened) this.evaluateSoon();
    else this.load({ namespace: "", panels: loaded }, "limitRanges");
  }

  /** Reads the live cluster, again if it is shown. */
  refresh = latest<void>(async () => {
    const scope = location.search;
    this.isReading = true;
    this.progress = "";
    this.draw();
    const asking = setInterval(() => void this.#ask(), ASKED);
    try {
      const response = await fetch(`cluster.json${scope}`, { cache: "no-store" });
      const text = await response.text();
      if (!response.ok) throw new Error(text.trim() || `${response.status} ${response.statusText}`);
      const missed = response.headers.get("x-headroom-missed");
      if (scope === location.search) {
        const name = new URLSearchParams(scope).get("namespace");
        await this.#inspect(name ? `namespace ${name}` : "cluster", scope, text, missed ? [missed] : []);
        this.clusterError = undefined;
        if (this.isProposed) void this.#propose();
      }
    } catch (error) {
      const { message } = error as Error;
      this.clusterError =
        message === "Failed to fetch" ? "kubectl headroom ui has ended, or cannot be reached" : message;
      // What another scope showed is not this one's.
      if (this.cluster && this.cluster.scope !== scope) this.cluster = undefined;
    }
    clearInterval(asking);
    this.isReading = false;
    this.draw();
    document.documentElement.dataset.cluster = this.clusterError === undefined ? "shown" : "failed";
  });

  /** Asks for proposed bounds, unless they are known and not yet old. */
  async #propose() {
    const scope = location.search;
    if (
      this.bounds?.scope === scope &&
      this.bounds.problem === undefined &&
      Date.now() - this.bounds.asked < BOUNDS_AGE
    )
      return;
    const asked: Proposing = { scope, asked: Date.now() };
    this.bounds = asked;
    try {
      const response = await fetch(`bounds.json${scope}`, { cache: "no-store" });
      if (!response.ok) throw new Error((await response.text()).trim());
      asked.answer = (await response.json()) as Bounds;
    } catch (error) {
      asked.problem = (error as Error).message;
    }
    this.draw();
  }

  /** Asks what is read now. */
  async #ask() {
    try {
      const response = await fetch("progress.json", { cache: "no-store" });
      const { what, done, all } = (await response.json()) as { what: string; done: number; all: number };
      this.progress = what && `${what}${all > 0 ? `, ${Math.floor((done / all) * 100)}%` : ""}`;
    } catch {
      // OK because the page says that it reads all the same.
    }
    if (this.isReading) this.draw();
  }

  /** Chooses another namespace of the live cluster; none for what it was started with. */
  enter(namespace: string) {
    history.replaceState(
      null,
      "",
      `${location.pathname}${namespace && `?namespace=${encodeURIComponent(namespace)}`}${location.hash}`,
    );
    this.list = { ...this.list, namespace: "", at: undefined, picked: [] };
    void this.refresh();
  }

  /** Leaves a snapshot for what was written before. */
  leave = () => {
    const before = this.#before;
    [this.cluster, this.trial, this.#before, this.tab, this.list] = [undefined, undefined, undefined, "overview", LIST];
    if (before) this.load(before);
    this.draw();
  };

  /** Goes to a view: `#workloads?only=risk`, `#workload=shop/deployment/web/nginx`. Only a live cluster's views are in the address. */
  show = (hash: string) => {
    this.#address(hash, true);
    this.route(hash);
    if (this.tab === "workloads" && this.list.at !== undefined) focusOn(".details h2");
  };

  #address(hash: string, isStep: boolean) {
    clearTimeout(this.#settled);
    const address = `${location.pathname}${location.search}${hash}`;
    if (!this.isLive || location.hash === hash) return;
    if (isStep) history.pushState(null, "", address);
    // Browsers bear only so many changes of the address in a minute.
    else this.#settled = window.setTimeout(() => history.replaceState(null, "", address), REST);
  }

  /** Changes what the list of workloads shows. */
  setList = (change: Partial<List>, isStep = false) => {
    this.list = { ...this.list, ...change };
    this.#address(write(this.list), isStep);
    this.draw();
    if (isStep && change.at !== undefined) focusOn(".details h2");
  };

  route(hash: string) {
    const [, name = "", value = ""] = /^#([\w-]*)[=?]?(.*)$/s.exec(hash) ?? [];
    this.isProposed = this.isLive && name === "quotas" && value === "proposed";
    if (this.isProposed) void this.#propose();
    this.tab = name === "workload" ? "workloads" : name in TABS ? (name as Tab) : "overview";
    this.list = name === "workload" ? { ...LIST, at: decoded(value) } : name === "workloads" ? read(value) : this.list;
    this.draw();
    if (this.tab === "what-if" && this.cluster && !this.cluster.opened) void this.#openInEngine();
  }

  // Keys

  /** The commands of the palette, with the workloads and quotas that are searched for. */
  commands = (search: string): Command[] => {
    const { cluster } = this;
    const view = (tab: Tab): Command => ({ label: TABS[tab], note: "View", run: () => this.show(`#${tab}`) });
    const theme = { label: "Dark or light", note: "Theme", run: this.turnTheme };
    if (!cluster)
      return [
        ...this.examples.map((example) => ({
          label: example.title,
          note: "Example",
          run: () => this.loadExample(example),
        })),
        { label: "Share", note: "Link", run: () => void this.share() },
        theme,
      ];
    const { workloads, quotas, namespaces } = cluster.inspection;
    const found =
      search.trim() === ""
        ? []
        : [
            ...workloads.map((workload) => ({
              label: `${workload.namespace} / ${workload.object} ${workload.container}`,
              note: "Workload",
              run: () => this.show(linkTo(workload)),
            })),
            ...namespaces.map((namespace) => ({
              label: namespace,
              note: "Namespace",
              run: () => this.show(write({ ...LIST, namespace })),
            })),
            ...quotas.map(({ namespace, name }) => ({
              label: `${namespace}/${name}`,
              note: "Quota",
              run: () => this.show("#quotas"),
            })),
          ];
    return [
      ...(Object.keys(TABS) as Tab[]).map(view),
      { label: "At risk", note: "Filter", run: () => this.show(write({ ...LIST, only: "risk" })) },
      { label: "Search", note: "/", run: this.search },
      ...(this.isLive
        ? [
            { label: "Proposed quotas and LimitRanges", note: "Quotas", run: () => this.show("#quotas=proposed") },
            { label: "Read the cluster again", note: "Refresh", run: () => void this.refresh() },
          ]
        : [{ label: "Close snapshot", note: "Leave", run: this.leave }]),
      ...(this.tab === "workloads"
        ? [
            {
              label: "Select all that are listed",
              note: "Selection",
              run: () =>
                this.setList({
                  picked: listed(workloads, this.list)
                    .map(({ id }) => id)
                    .slice(0, PICKED),
                }),
            },
          ]
        : []),
      theme,
      ...found,
    ];
  };

  /** Goes to the search of the view, or of the workloads. */
  search = () => {
    if (!document.querySelector("#search")) this.show("#workloads");
    focusOn("#search");
  };

  /** Keys that mean the same everywhere. */
  press = (event: KeyboardEvent) => {
    const isTyped = (event.target as HTMLElement | null)?.closest?.(
      "input:not([type=checkbox]), select, textarea, #editor",
    );
    if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) {
      this.isPaletteOpen = !this.isPaletteOpen;
      this.draw();
    } else if (event.key === "/" && !isTyped && this.cluster && !this.isPaletteOpen) this.search();
    else if (event.key === "Escape" && isTyped?.id === "search") (event.target as HTMLElement).blur();
    else return;
    event.preventDefault();
  };

  closePalette = () => {
    this.isPaletteOpen = false;
    this.draw();
  };

  /** What the engine behind a live cluster makes of some workloads' changes. */
  change: Changing = async (form, workloads) => {
    this.say("Reading these workloads again…", "good", undefined, true);
    const query = new URLSearchParams([["form", form], ...workloads.map((workload) => ["workload", workload])]);
    const response = await fetch(`changes.json?${query}`, { cache: "no-store" });
    const text = await response.text();
    if (!response.ok) {
      this.say(text.trim(), "bad");
      throw new Error(text);
    }
    const made = JSON.parse(text) as string;
    if (made === "") this.say("Nothing is to be changed: these workloads request what is recommended.");
    if (made === "") throw new Error("nothing to copy");
    return made;
  };

  // The rest

  say(text: string, tone: Toast["tone"] = "good", field?: string, stays = false) {
    this.toast = { text, tone, ...(field === undefined ? {} : { field }) };
    clearTimeout(this.#toasted);
    if (tone === "good" && field === undefined && !stays) this.#toasted = window.setTimeout(this.hush, 6_000);
    this.draw();
  }

  hush = () => {
    this.toast = undefined;
    this.draw();
  };

  copy = async (text: string, what: string) => {
    try {
      await navigator.clipboard.writeText(text);
      this.say(`${what}${this.cluster?.context ? ` for cluster ${this.cluster.context}` : ""} copied.`);
    } catch {
      this.say(`The browser does not let the page copy: ${what.toLowerCase()} is below.`, "good", text);
    }
  };

  share = async () => {
    const packed = await pack(this.state());
    if (isTooLong(packed))
      return this.say(`This is too large for a link (${Math.ceil(packed.length / 1024)} KiB when packed).`, "bad");
    await this.copy(new URL(`#${packed}`, location.href).href, "Link");
  };

  exportPolicy = async () => {
    try {
      await this.copy(await engine.policy(this.editor.text("settings")), "Policy manifest");
    } catch (error) {
      this.say((error as Error).message, "bad");
    }
  };

  download = async (row: number) => {
    try {
      const { name, files } = await engine.replay(this.state(), row);
      const address = URL.createObjectURL(zip(files));
      const link = document.createElement("a");
      [link.href, link.download] = [address, `${name}.zip`];
      link.click();
      setTimeout(() => URL.revokeObjectURL(address), 10_000);
    } catch (error) {
      this.say((error as Error).message, "bad");
    }
  };

  turnTheme = () => {
    const isDark = this.theme === "auto" ? matchMedia("(prefers-color-scheme: dark)").matches : this.theme === "dark";
    this.theme = isDark ? "light" : "dark";
    document.documentElement.dataset.theme = this.theme;
    try {
      localStorage.setItem("headroom.theme", this.theme);
    } catch {
      // OK because the theme lasts as long as the page then.
    }
    this.draw();
  };

  /** `158 objects in 5 namespaces` */
  get extent(): string {
    const { objects, namespaces } = this.cluster!.inspection;
    return `${count(objects, "object")} in ${count(namespaces.length, "namespace")}`;
  }

  label = (panel: Panel) => LABELS[panel];
}

/** "What if" evaluates at most so many Pods: their objects are 140 MB of JSON. */
const MOST_PODS = 30_000;

/** The objects of a live cluster, which "What if" evaluates. */
async function objectsOf({ scope, inspection: { workloads } }: Cluster): Promise<string> {
  const pods = new Map(workloads.map(({ namespace, object, pods }) => [`${namespace}/${object}`, pods]));
  const all = [...pods.values()].reduce((sum, pods) => sum + pods, 0);
  if (all > MOST_PODS)
    throw new Error(
      `there are ${count(all, "Pod")}, and at most ${count(MOST_PODS, "Pod")} can be evaluated here: choose a namespace as the scope`,
    );
  const response = await fetch(`objects.json${scope}`, { cache: "no-store" });
  const text = await response.text();
  if (!response.ok) throw new Error(text.trim());
  return text;
}

/** Puts the focus where the eye goes. */
const focusOn = (selector: string) => document.querySelector<HTMLElement>(selector)?.focus({ preventScroll: true });

/** How often the page asks what is read, in milliseconds. */
const ASKED = 500;

/** Proposed bounds are asked for again after this time, in milliseconds. */
const BOUNDS_AGE = 600_000;

/** So many are changed at once. */
const PICKED = 500;

/** Somebody may have shortened an address. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function storedTheme(): string {
  try {
    const stored = localStorage.getItem("headroom.theme");
    if (stored === "light" || stored === "dark") return stored;
  } catch {
    // OK because the browser's own preference stands then.
  }
  return "auto";
}
