// The page: what is written on the left, what becomes of it on the right.

import { Shown, byId, h } from "./dom.js";
import { Editor, type Mark } from "./editor.js";
import { PAGE, engine, latest } from "./engine.js";
import { EFFECTS, marksOf, results, summary, trial, trialSummary } from "./render.js";
import { type Stray, strays } from "./schema.js";
import { type Beginning, beginning, filled, isTooLong, keep, pack, putIntoAddress } from "./state.js";
import { PANELS, type Example, type Outcome, type Overview, type Panel, type Panels, type Problem, type State } from "./types.js";
import { zip } from "./zip.js";

const LABELS: Record<Panel, string> = {
  objects: "Objects",
  limitRanges: "LimitRanges",
  quotas: "Quotas",
  usage: "Usage",
  namespaces: "Namespaces",
  existing: "In the cluster",
  settings: "Settings",
};

/** Longer texts are judged when the keys rest, shorter ones at each key. */
const LONG = 100_000;
const REST = 250;
/** How long after the last key the address changes. */
const SETTLED = 500;

const status = byId("status", HTMLElement);
const list = new Shown(byId("results", HTMLElement));
const namespace = byId("namespace", HTMLInputElement);
const chooser = byId("example", HTMLSelectElement);
const shows = byId("shows", HTMLElement);
const tabs = new Map<Panel, HTMLButtonElement>();

let from = 0;
/**
 * The snapshot that is open, which part of the live cluster it is (the query of the page's address; none for a file), what it
 * put into the panels, and what was in them before.
 */
let cluster: { overview: Overview; scope: string | undefined; loaded: Panels; before: State } | undefined;
let timer = 0;
let settled = 0;

const editor = new Editor(byId("editor", HTMLElement), "objects", LABELS, () => changed());

function state(): State {
  return { namespace: namespace.value.trim(), panels: filled((panel) => editor.text(panel)) };
}

const judge = latest(async (now: State) => {
  try {
    if (cluster) {
      const { result, milliseconds } = await engine.simulate(now);
      status.textContent = `${trialSummary(result)}. Judged in ${told(milliseconds)}.`;
      const { overview } = cluster;
      list.show((keep) => trial(result, overview, from, keep, actions));
      mark(result.problems, []);
    } else {
      const { result, milliseconds } = await engine.judge(now, from);
      show(result, milliseconds);
    }
    document.documentElement.dataset.state = "judged";
  } catch (error) {
    status.textContent = `The engine failed: ${(error as Error).message}`;
    list.show(() => []);
    document.documentElement.dataset.state = "failed";
  }
});

/** Judges the panels after a change. */
function judgeSoon() {
  delete document.documentElement.dataset.state;
  from = 0;
  const now = state();
  const length = Object.values(now.panels).reduce((sum, text) => sum + text.length, 0);
  clearTimeout(timer);
  if (length < LONG) judge(now);
  else timer = window.setTimeout(() => judge(state()), REST);
}

/** The text changed. A cluster's objects are kept neither in the address nor in the browser's storage. */
function changed() {
  judgeSoon();
  clearTimeout(settled);
  if (!cluster) settled = window.setTimeout(remember, SETTLED);
}

async function remember() {
  const packed = await pack(state());
  if (cluster) return;
  putIntoAddress(packed);
  keep(packed);
}

const told = (milliseconds: number) => `${milliseconds < 10 ? milliseconds.toFixed(1) : milliseconds.toFixed(0)} ms`;

const actions = {
  labels: LABELS,
  goTo: (panel: Panel, line: number) => {
    choose(panel);
    editor.goTo(line);
  },
  download: (row: number) => void download(row),
  turnTo: (row: number) => {
    from = row - (row % (cluster ? EFFECTS : PAGE));
    judge(state());
  },
};

function show(outcome: Outcome, milliseconds: number) {
  status.textContent = `${summary(outcome.rows)}. Judged in ${told(milliseconds)}.`;
  list.show((keep) => results(outcome, from, keep, actions));
  mark(outcome.problems, marksOf(outcome.rows, outcome.details));
}

/** The fields that no reader knows, by panel; a panel is searched again when its text has changed. */
const searched = new Map<Panel, { text: string; found: Stray[] }>();

/** Shows what is wrong at its lines, and how much of it there is in which panel. */
function mark(problems: Problem[], ofObjects: Mark[]) {
  const marks = new Map<Panel, Mark[]>(PANELS.map((panel) => [panel, []]));
  for (const { panel, line, text } of problems) marks.get(panel)!.push({ line, severity: "error", text });
  marks.get("objects")!.push(...ofObjects);
  for (const panel of PANELS) {
    const text = editor.text(panel);
    if (text !== searched.get(panel)?.text) searched.set(panel, { text, found: text.length < LONG ? strays(panel, text) : [] });
    marks.get(panel)!.push(...searched.get(panel)!.found.map(({ line, text }): Mark => ({ line: line + 1, severity: "warning", text })));
    const count = problems.filter((problem) => problem.panel === panel).length;
    const tab = tabs.get(panel)!;
    tab.classList.toggle("filled", text.trim() !== "");
    if (tab.dataset.problems === String(count)) continue;
    tab.dataset.problems = String(count);
    tab.replaceChildren(LABELS[panel], count > 0 ? h("span", { class: "count" }, ` ${count}`, h("span", { class: "hidden" }, count === 1 ? " problem" : " problems")) : "");
  }
  editor.mark(marks);
}

/** The panels that a snapshot's objects are tried with. */
const TRIED: Panel[] = ["limitRanges", "quotas", "namespaces", "settings"];

function counted({ objects, namespaces }: Overview): string {
  return `${objects} objects in ${namespaces.length} ${namespaces.length === 1 ? "namespace" : "namespaces"}`;
}

const panelsOf = ({ limitRanges, quotaManifests, settings }: Overview): Panels => ({ limitRanges, quotas: quotaManifests, settings });

async function openSnapshot(name: string, snapshot: Promise<string>, scope?: string) {
  say("");
  status.textContent = `Opening ${name}…`;
  delete document.documentElement.dataset.state;
  try {
    const before = cluster?.before ?? state();
    const { result, milliseconds } = await engine.open(await snapshot);
    clearTimeout(settled);
    cluster = { overview: result, scope, loaded: panelsOf(result), before };
    const settings = result.settings === "" ? " It names no settings of the policy, so the defaults count now." : "";
    shows.textContent = `${name}: ${counted(result)}, opened in ${told(milliseconds)}. Change or delete LimitRanges, quotas or settings to see what that would do to everything that runs. Objects without a namespace apply to all.${settings}`;
    load({ namespace: "", panels: cluster.loaded }, "limitRanges");
  } catch (error) {
    say(`${name} cannot be opened: ${(error as Error).message}`);
    judgeSoon();
  }
  showMode();
}

/** Whether `kubectl headroom ui` serves the page, with a cluster behind it. */
const isLive = document.documentElement.dataset.live !== undefined;
const MINUTE = 60_000;

async function get(path: string): Promise<string> {
  const response = await fetch(path, { cache: "no-store" });
  const text = await response.text();
  if (!response.ok) throw new Error(text.trim());
  const missed = response.headers.get("x-headroom-missed");
  if (missed) say(`Not everything could be read: ${missed}`);
  return text;
}

/** What is there, of the namespace that the page's address names if it names one. */
const readCluster = (scope: string) => get(`cluster.json${scope}`);

let isReading = false;

/** Reads the cluster, again if it is open: panels that were changed stay as they are, the others follow the cluster. */
const refresh = latest<void>(async () => {
  const scope = location.search;
  isReading = true;
  try {
    if (cluster?.scope !== scope) return await openSnapshot("The cluster", readCluster(scope), scope);
    const snapshot = await readCluster(scope);
    // It may have been closed, or a file opened.
    if (cluster?.scope !== scope) return;
    const { result } = await engine.open(snapshot);
    if (cluster?.scope !== scope) return;
    const loaded = panelsOf(result);
    const changed = TRIED.filter((panel) => editor.text(panel) !== (cluster!.loaded[panel] ?? ""));
    for (const panel of TRIED) if (!changed.includes(panel)) editor.replace(panel, loaded[panel] ?? "");
    cluster = { ...cluster, overview: result, loaded };
    const kept = changed.length > 0 ? ` What you wrote is kept: ${changed.map((panel) => LABELS[panel]).join(", ")}.` : "";
    shows.textContent = `The cluster: ${counted(result)}, read at ${new Date().toLocaleTimeString()}.${kept}`;
    judgeSoon();
  } catch (error) {
    say(`The cluster cannot be read: ${(error as Error).message}`);
  } finally {
    isReading = false;
  }
});

function closeSnapshot() {
  const before = cluster?.before;
  cluster = undefined;
  shows.textContent = "";
  if (before) load(before);
  showMode();
}

function showMode() {
  byId("close-snapshot", HTMLButtonElement).hidden = cluster === undefined;
  namespace.disabled = cluster !== undefined;
  for (const id of ["copy-link", "example"]) (byId(id, HTMLElement) as HTMLButtonElement | HTMLSelectElement).disabled = cluster !== undefined;
  for (const [panel, tab] of tabs) tab.hidden = cluster !== undefined && !TRIED.includes(panel);
}

function makeSnapshots() {
  const input = byId("snapshot", HTMLInputElement);
  byId("open-snapshot", HTMLButtonElement).addEventListener("click", () => input.click());
  byId("close-snapshot", HTMLButtonElement).addEventListener("click", closeSnapshot);
  input.addEventListener("change", () => {
    const file = input.files?.[0];
    input.value = "";
    if (file) void openSnapshot(file.name, file.text());
  });
  document.addEventListener("dragover", (event) => {
    if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
  });
  document.addEventListener("drop", (event) => {
    const file = event.dataTransfer?.files[0];
    if (!file) return;
    event.preventDefault();
    void openSnapshot(file.name, file.text());
  });
}

async function download(row: number) {
  try {
    const { name, files } = await engine.replay(state(), row);
    const address = URL.createObjectURL(zip(files));
    h("a", { href: address, download: `${name}.zip` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  } catch (error) {
    say((error as Error).message);
  }
}

async function copy(text: string, what: string) {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} copied.`);
  } catch {
    say(`The browser does not let the page copy: ${what} is in the field below.`, text);
  }
}

/** A short message, and a text to be copied by hand. */
function say(message: string, text?: string) {
  const field = text === undefined ? "" : h("textarea", { readonly: true, "aria-label": message, rows: 3 }, text);
  byId("message", HTMLElement).replaceChildren(message, field);
}

function load(wanted: State, panel: Panel = "objects") {
  namespace.value = wanted.namespace;
  editor.load(wanted.panels);
  choose(panel);
  clearTimeout(settled);
  judgeSoon();
}

function choose(panel: Panel) {
  for (const [other, tab] of tabs) {
    tab.setAttribute("aria-selected", String(other === panel));
    tab.tabIndex = other === panel ? 0 : -1;
  }
  byId("editor", HTMLElement).setAttribute("aria-labelledby", `tab-${panel}`);
  editor.show(panel);
}

function makeTabs() {
  const row = byId("tabs", HTMLElement);
  for (const panel of PANELS) {
    const tab = h("button", { type: "button", role: "tab", id: `tab-${panel}`, "aria-controls": "editor", click: () => choose(panel) }, LABELS[panel]);
    tabs.set(panel, tab);
    row.append(tab);
  }
  row.addEventListener("keydown", (event) => {
    const shown = PANELS.filter((panel) => !tabs.get(panel)!.hidden);
    const at = shown.findIndex((panel) => tabs.get(panel) === event.target);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1 + shown.length, Home: 0, End: shown.length - 1 }[event.key];
    if (to === undefined || at < 0) return;
    const next = shown[to % shown.length]!;
    choose(next);
    tabs.get(next)!.focus();
    event.preventDefault();
  });
}

function makeExamples(examples: Example[]) {
  for (const group of new Set(examples.map((example) => example.group))) {
    const options = examples.filter((example) => example.group === group);
    const element = h("optgroup", { label: group }, ...options.map(({ name, title }) => h("option", { value: name }, title)));
    chooser.append(element);
  }
  chooser.addEventListener("change", () => {
    const example = examples.find(({ name }) => name === chooser.value);
    if (example) loadExample(example);
  });
}

function makeThemes() {
  const button = byId("theme", HTMLButtonElement);
  const themes = ["auto", "light", "dark"];
  const set = (theme: string) => {
    document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
  };
  let stored: string | null = null;
  try {
    stored = localStorage.getItem("headroom.theme");
  } catch {
    // OK because the browser's own preference stands then.
  }
  set(themes.includes(stored ?? "") ? stored! : "auto");
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % themes.length]!;
    set(next);
    try {
      localStorage.setItem("headroom.theme", next);
    } catch {
      // OK because the theme lasts as long as the page then.
    }
  });
}

function loadExample(example: Example) {
  chooser.value = example.name;
  shows.textContent = example.shows;
  history.replaceState(null, "", `#example=${example.name}`);
  load(example);
}

function begin({ state, example, problem }: Beginning) {
  if (problem) say(problem);
  if (example) return loadExample(example);
  chooser.value = "";
  shows.textContent = "";
  load(state);
}

/** Begins with what is shown first. */
export function start(examples: Example[], first: Beginning) {
  makeTabs();
  makeThemes();
  makeSnapshots();
  namespace.addEventListener("input", changed);
  byId("copy-link", HTMLButtonElement).addEventListener("click", async () => {
    const packed = await pack(state());
    if (isTooLong(packed)) return say(`This is too large for a link (${Math.ceil(packed.length / 1024)} KiB when packed).`);
    await copy(new URL("#" + packed, location.href).href, "Link");
  });
  byId("copy-policy", HTMLButtonElement).addEventListener("click", async () => {
    try {
      await copy(await engine.policy(editor.text("settings")), "Policy manifest");
    } catch (error) {
      say((error as Error).message);
    }
  });
  makeExamples(examples);
  window.addEventListener("hashchange", async () => {
    if (cluster) return;
    const wanted = await beginning(examples);
    // What is written is worth more than a link that cannot be read.
    if (wanted.problem) say(wanted.problem);
    else begin(wanted);
  });
  // Not by its address, which is that of the state.
  byId("skip", HTMLAnchorElement).addEventListener("click", (event) => {
    event.preventDefault();
    byId("results-heading", HTMLElement).focus();
  });
  begin(first);
  if (isLive) {
    const button = byId("refresh", HTMLButtonElement);
    button.hidden = false;
    button.addEventListener("click", () => refresh());
    const scope = byId("scope", HTMLInputElement);
    byId("scope-label", HTMLElement).hidden = false;
    scope.value = new URLSearchParams(location.search).get("namespace") ?? "";
    scope.addEventListener("change", () => {
      const name = scope.value.trim();
      history.replaceState(null, "", `${location.pathname}${name && `?namespace=${encodeURIComponent(name)}`}${location.hash}`);
      refresh();
    });
    setInterval(() => {
      if (cluster?.scope !== undefined && !isReading && document.visibilityState === "visible") refresh();
    }, MINUTE);
    refresh();
  }
}
