// Clusters: read through the local server, again and again, or from a file.

import { count } from "./amounts.js";
import { engine, latest } from "./engine.js";
import type { Inspection } from "./inspect.js";
import { say } from "./messages.js";
import { type Cluster, type Proposing, change, state } from "./state.js";
import type { Bounds, Timeline, Why } from "./types.js";

/** How often the page asks what is read, in milliseconds. */
const ASKED = 500;
/** Proposed bounds are asked for again after this time, in milliseconds. */
const BOUNDS_AGE = 600_000;
/** "What if" evaluates at most so many Pods: their objects are 140 MB of JSON. */
const MOST_PODS = 30_000;

/** Asks the local server; an error is its message. */
async function ask(question: string): Promise<Response> {
  const response = await fetch(question, { cache: "no-store" });
  if (!response.ok) throw new Error((await response.text()).trim() || `${response.status} ${response.statusText}`);
  return response;
}

export function showCluster(inspection: Inspection, about: Pick<Cluster, "name" | "scope" | "text">) {
  const before = state.cluster?.scope === about.scope ? state.cluster : undefined;
  const opened = before?.opened ? { opened: before.opened } : {};
  change({ cluster: { ...about, name: inspection.context || about.name, inspection, ...opened } });
}

/** Reads the live cluster, again if it is shown. */
export const refresh = latest<void>(async () => {
  const scope = location.search;
  change({ isReading: true, progress: "" });
  const asking = setInterval(() => void askProgress(), ASKED);
  if (state.cluster?.scope !== scope) void readRows(scope);
  try {
    const { result, milliseconds } = await engine.inspect(await (await ask(`cluster.json${scope}`)).text());
    if (!result) throw new Error("the local server answered with no snapshot");
    if (scope === location.search) {
      showCluster(result, { name: nameOf(scope), scope, text: undefined });
      change({ clusterError: undefined, milliseconds });
      if (state.isProposed) void propose();
    }
  } catch (error) {
    const { message } = error as Error;
    state.clusterError =
      message === "Failed to fetch" ? "kubectl headroom ui has ended, or cannot be reached" : message;
    // Rows without usage, and what another scope showed, are not this cluster.
    if (state.cluster && (state.cluster.scope !== scope || state.cluster.inspection.isFirst)) state.cluster = undefined;
  }
  clearInterval(asking);
  change({ isReading: false });
  document.documentElement.dataset.cluster = state.clusterError === undefined ? "shown" : "failed";
});

const nameOf = (scope: string) => {
  const namespace = new URLSearchParams(scope).get("namespace");
  return namespace ? `namespace ${namespace}` : "cluster";
};

/** Shows what runs while its usage is still being read. */
async function readRows(scope: string) {
  try {
    const { result } = await engine.inspect(await (await ask(`rows.json${scope}`)).text());
    if (!result || scope !== location.search || state.cluster?.scope === scope) return;
    showCluster(
      { ...result, isFirst: true, unknown: "It is still being read." },
      { name: nameOf(scope), scope, text: undefined },
    );
  } catch {
    // OK because the rest says what cannot be read.
  }
}

/** Asks what is read now. */
async function askProgress() {
  try {
    const { what, done, all } = await (await ask("progress.json")).json();
    const progress = what && `${what}${all > 0 ? `, ${Math.floor((done / all) * 100)}%` : ""}`;
    if (state.isReading && progress !== state.progress) change({ progress });
  } catch {
    // OK because the page says that it reads all the same.
  }
}

/** Asks for proposed bounds, unless they are known and not yet old. */
export async function propose() {
  const scope = location.search;
  const { bounds } = state;
  if (bounds?.scope === scope && bounds.problem === undefined && Date.now() - bounds.asked < BOUNDS_AGE) return;
  const asked: Proposing = { scope, asked: Date.now() };
  change({ bounds: asked });
  try {
    asked.answer = (await (await ask(`bounds.json${scope}`)).json()) as Bounds;
  } catch (error) {
    asked.problem = (error as Error).message;
  }
  change();
}

export type Form = "kustomize" | "markdown" | "patch";

/** What the engine behind a live cluster makes of some workloads' changes; empty if that is nothing. */
export async function changesOf(form: Form, workloads: string[]): Promise<string> {
  say("Reading these workloads again…", "good", undefined, true);
  const query = new URLSearchParams([["form", form], ...workloads.map((workload) => ["workload", workload])]);
  try {
    const made = (await (await ask(`changes.json?${query}`)).json()) as string;
    if (made === "") say("Nothing is to be changed: these workloads request what is recommended.");
    return made;
  } catch (error) {
    say((error as Error).message, "bad");
    return "";
  }
}

/** What is wrong with a workload now. */
export const whyOf = async (workload: string): Promise<Why> =>
  (await ask(`why.json?${new URLSearchParams({ workload })}`)).json();

/** Tries the changes beside a workload, which a reading of a large cluster leaves for later. */
export async function tryOut(workload: string) {
  const { scope = "", inspection } = state.cluster!;
  const query = `${new URLSearchParams({ workload })}&${scope.slice(1)}`;
  const { result } = await engine.inspect(await (await ask(`tried.json?${query}`)).text());
  const { cluster } = state;
  if (!result || cluster?.inspection.madeAt !== inspection.madeAt) return;
  const tried = new Map(result.workloads.map((of) => [of.id, of]));
  const workloads = cluster.inspection.workloads.map((of) => {
    const { risks, rank, isBlocked } = of;
    return { ...(tried.get(of.id) ?? of), risks, rank, isBlocked };
  });
  change({ cluster: { ...cluster, inspection: { ...cluster.inspection, workloads } } });
}

/** The usage of a container by the hour. */
export const hoursOf = async (workload: string, container: string): Promise<Timeline> =>
  (await ask(`hours.json?${new URLSearchParams({ workload, container })}`)).json();

/** The objects of a cluster, which "What if" evaluates. */
export async function objectsOf({ scope, text, inspection: { workloads } }: Cluster): Promise<string> {
  if (text !== undefined) return text;
  const pods = new Map(workloads.map(({ namespace, object, pods }) => [`${namespace}/${object}`, pods]));
  const all = [...pods.values()].reduce((sum, pods) => sum + pods, 0);
  if (all > MOST_PODS)
    throw new Error(
      `there are ${count(all, "Pod")}, and at most ${count(MOST_PODS, "Pod")} can be evaluated here: choose a namespace as the scope`,
    );
  return (await ask(`objects.json${scope}`)).text();
}
