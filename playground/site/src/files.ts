// Files that somebody opens: a cluster's objects as a snapshot, anything else as manifests.

import { engine } from "./engine.js";
import { load, loadObjects, written } from "./evaluation.js";
import { LIST } from "./list.js";
import { say } from "./messages.js";
import { show } from "./navigation.js";
import { showCluster } from "./reading.js";
import { change, state } from "./state.js";
import type { State } from "./types.js";

/** What was in the panels before a snapshot was opened. */
let before: State | undefined;

export async function open(file: File) {
  const text = await file.text();
  let found: Awaited<ReturnType<typeof engine.inspect>>["result"] = null;
  try {
    found = (await engine.inspect(text)).result;
  } catch (error) {
    // Manifests are YAML as a rule; a name says where they ought to be JSON.
    if (file.name.endsWith(".json")) return say(`${file.name} cannot be opened: ${(error as Error).message}`, "bad");
  }
  if (found) {
    before ??= written();
    showCluster(found, { name: file.name, scope: undefined, text });
    return show("#overview");
  }
  if (state.cluster) leave();
  loadObjects(text);
  say(`${file.name} opened.`);
}

/** Leaves a snapshot for what was written before. */
export function leave() {
  const wanted = before;
  before = undefined;
  Object.assign(state, { cluster: undefined, trial: undefined, tab: "overview", list: LIST });
  if (wanted) load(wanted);
  change();
}
