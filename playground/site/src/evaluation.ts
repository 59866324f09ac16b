// The texts of the panels, and what the engine says of them.

import { Editor } from "./editor.js";
import { PAGE, engine, latest } from "./engine.js";
import { type Finding, edits, lineAt, marksOf } from "./explain.js";
import { type Beginning, filled, isTooLong, keep, pack, putIntoAddress } from "./link.js";
import { Located } from "./locate.js";
import { copy, say } from "./messages.js";
import { TRIED } from "./panels.js";
import { type Stray, strays } from "./schema.js";
import { change, isCluster, state } from "./state.js";
import { type Example, PANELS, type Panel, type Panels, type Row, type State } from "./types.js";
import { zip } from "./zip.js";

/** Longer texts are evaluated when the keys rest, shorter ones at each key. */
const LONG = 100_000;
const REST = 250;
/** How long after the last key the address changes. */
const SETTLED = 500;
/** So many groups of effects are on a page. */
export const EFFECTS = 50;

/** The element that the editor is in, wherever it is shown. */
export const host = document.createElement("div");
host.id = "editor";
host.setAttribute("role", "tabpanel");
export const editor = new Editor(host, "objects", changed);

let timer = 0;
let settled = 0;
/** The fields that no reader knows, by panel; a panel is searched again when its text has changed. */
const searched = new Map<Panel, { text: string; found: Stray[] }>();

export const written = (): State => ({
  namespace: state.namespace.trim(),
  panels: filled((panel) => editor.text(panel)),
});

const evaluate = latest(async (now: State) => {
  const { cluster } = state;
  try {
    if (cluster) {
      if (!cluster.opened) return;
      const { result: trial, milliseconds } = await engine.simulate(now);
      if (state.cluster !== cluster) return;
      Object.assign(state, { trial, milliseconds, failure: undefined });
    } else {
      const { result: outcome, milliseconds } = await engine.evaluate(now, state.from);
      Object.assign(state, { outcome, milliseconds, failure: undefined });
    }
  } catch (error) {
    state.failure = (error as Error).message;
  }
  mark();
  change();
  document.documentElement.dataset.state = state.failure === undefined ? "evaluated" : "failed";
});

/** Evaluates the panels after a change. */
function evaluateSoon() {
  delete document.documentElement.dataset.state;
  state.from = 0;
  const now = written();
  const length = Object.values(now.panels).reduce((sum, text) => sum + text.length, 0);
  clearTimeout(timer);
  if (length < LONG) evaluate(now);
  else timer = window.setTimeout(() => evaluate(written()), REST);
}

/** Shows the objects, or groups of effects, from this one on. */
export function turnTo(row: number) {
  state.from = row - (row % (state.cluster ? EFFECTS : PAGE));
  evaluate(written());
}

/** The text changed. A cluster's objects are kept neither in the address nor in the browser's storage. */
export function changed() {
  evaluateSoon();
  clearTimeout(settled);
  if (isCluster()) return;
  if (state.example) change({ example: undefined });
  settled = window.setTimeout(() => void remember(), SETTLED);
}

async function remember() {
  const packed = await pack(written());
  if (isCluster()) return;
  putIntoAddress(packed);
  keep(packed);
}

/** Shows what is wrong at its place, and how much of it there is in which panel. */
function mark() {
  const { cluster, trial, outcome } = state;
  const problems = (cluster ? trial?.problems : outcome?.problems) ?? [];
  const marks = new Map(PANELS.map((panel) => [panel, [] as ReturnType<typeof marksOf>]));
  for (const { panel, line, text } of problems) marks.get(panel)!.push({ line, severity: "error", text });
  const objects = editor.text("objects");
  if (!cluster && outcome && objects.trim() !== "" && objects.length < LONG)
    marks.get("objects")!.push(...marksOf(outcome.rows, outcome.details, objects));
  for (const panel of PANELS) {
    const text = editor.text(panel);
    if (text !== searched.get(panel)?.text)
      searched.set(panel, { text, found: text.length < LONG ? strays(panel, text) : [] });
    const found = searched.get(panel)!.found;
    marks.get(panel)!.push(...found.map(({ line, text }) => ({ line: line + 1, severity: "warning" as const, text })));
    state.problems.set(panel, problems.filter((problem) => problem.panel === panel).length);
  }
  editor.mark(marks);
}

export interface Place {
  line: number;
  canBeMended: boolean;
}

/** The line of a finding's field, and whether the text has the value there. */
export function place(row: Row, finding: Finding): Place | undefined {
  const found = find(row, finding);
  return found && { line: lineAt(found.text, found.at.from), canBeMended: found.changes.length > 0 };
}

/** Sets the value of a finding that can be mended. */
export function mend(row: Row, finding: Finding) {
  choose("objects");
  // Where it stands now, which need not be where it stood when the button was drawn.
  editor.edit(find(row, finding)?.changes ?? []);
}

function find(row: Row, { fix }: Finding) {
  const text = editor.text("objects");
  if (!fix || text.length >= LONG) return undefined;
  const located = new Located(text, row.line);
  const at = located.resource(fix.container, fix.field) ?? located.name(fix.container);
  return at && { text, at, changes: edits(located, fix, text) };
}

export function load(wanted: State, panel: Panel = "objects") {
  state.namespace = wanted.namespace;
  editor.load(wanted.panels);
  choose(panel);
  clearTimeout(settled);
  evaluateSoon();
}

/** Puts manifests of a file into the editor. */
export function loadObjects(objects: string) {
  state.example = undefined;
  load({ namespace: "", panels: { ...written().panels, objects } });
  settled = window.setTimeout(() => void remember(), SETTLED);
}

/** Puts the objects of a cluster into the panels: those that were changed since they were loaded stay as they are. */
export function loadCluster(loaded: Panels, before: Panels | undefined) {
  if (!before) return load({ namespace: "", panels: loaded }, "limitRanges");
  for (const panel of TRIED)
    if (editor.text(panel) === (before[panel] ?? "")) editor.replace(panel, loaded[panel] ?? "");
  evaluateSoon();
}

export function choose(panel: Panel) {
  editor.show(panel);
  host.setAttribute("aria-labelledby", `tab-${panel}`);
  change({ panel });
}

export function goTo(panel: Panel, line: number) {
  state.pane = "edit";
  choose(panel);
  editor.goTo(line);
}

export function loadExample(example: Example) {
  state.example = example;
  history.replaceState(null, "", `#example=${example.name}`);
  load(example);
}

export function begin({ state: wanted, example, problem }: Beginning) {
  if (problem) say(problem, "bad");
  if (example) return loadExample(example);
  state.example = undefined;
  load(wanted);
}

export async function share() {
  const packed = await pack(written());
  if (isTooLong(packed))
    return say(`This is too large for a link (${Math.ceil(packed.length / 1024)} KiB when packed).`, "bad");
  await copy(new URL(`#${packed}`, location.href).href, "Link");
}

export async function exportPolicy() {
  try {
    await copy(await engine.policy(editor.text("settings")), "Policy manifest");
  } catch (error) {
    say((error as Error).message, "bad");
  }
}

export async function download(row: number) {
  try {
    const { name, files } = await engine.replay(written(), row);
    const address = URL.createObjectURL(zip(files));
    const link = document.createElement("a");
    [link.href, link.download] = [address, `${name}.zip`];
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  } catch (error) {
    say((error as Error).message, "bad");
  }
}
