// The state of the page. Views read it; `change` changes it and shows the page again. What changes it is in `evaluation` (the
// panels and what the engine says of them), `reading` (clusters and files), `navigation` (views and addresses) and `messages`.

import type { Inspection } from "./inspect.js";
import { LIST, type List } from "./list.js";
import type { Bounds, Example, Outcome, Overview, Panel, Panels, Trial } from "./types.js";

export const TABS = { overview: "Overview", workloads: "Workloads", quotas: "Quotas", "what-if": "What if" } as const;
export type Tab = keyof typeof TABS;

export interface Cluster {
  /** What is shown of which cluster: `prod`, or a file. */
  name: string;
  /** Which part of the live cluster it is (the query of the page's address); none for a file. */
  scope: string | undefined;
  /** The whole snapshot of a file. A live cluster's objects are asked for by "What if" alone: no other view needs them. */
  text: string | undefined;
  inspection: Inspection;
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

export const state = {
  /** Where the page was opened: with a cluster behind it, as a file with a cluster inside, or as a playground. */
  kind: "playground" as "playground" | "live" | "report",
  theme: "auto",
  toast: undefined as Toast | undefined,
  isPaletteOpen: false,
  /** All views are shown, to be printed. */
  isPrinted: false,

  // The panels, and what became of them.
  examples: [] as Example[],
  panel: "objects" as Panel,
  namespace: "",
  example: undefined as Example | undefined,
  /** The first row that is shown. */
  from: 0,
  outcome: undefined as Outcome | undefined,
  trial: undefined as Trial | undefined,
  milliseconds: 0,
  /** Why there is no verdict. */
  failure: undefined as string | undefined,
  problems: new Map<Panel, number>(),
  /** What a narrow window shows. */
  pane: "verdict" as "verdict" | "edit",

  // The cluster, and the view of it.
  cluster: undefined as Cluster | undefined,
  /** Why a live cluster is not shown, or not as it is now. */
  clusterError: undefined as string | undefined,
  isReading: false,
  /** What the local server reads now: `Reading pods, 25%`. */
  progress: "",
  tab: "overview" as Tab,
  list: LIST as List,
  /** Quotas are shown as they should be. */
  isProposed: false,
  bounds: undefined as Proposing | undefined,
};

/** The views of the cluster; a file with a cluster inside has no engine to try something with. */
export const tabs = () => (Object.keys(TABS) as Tab[]).filter((tab) => tab !== "what-if" || state.kind !== "report");

export const isLive = () => state.kind === "live";
export const isCluster = () => state.kind !== "playground" || state.cluster !== undefined;

let draw = () => {};

/** Says who shows the state. */
export function shownBy(drawing: () => void) {
  draw = drawing;
}

/** Changes a part of the state, and shows all of it. */
export function change(part: Partial<typeof state> = {}) {
  Object.assign(state, part);
  const { cluster, list, tab } = state;
  const place = cluster ? [list.at && tab === "workloads" ? list.at : TABS[tab], cluster.name] : [];
  document.title = [...place, "Headroom"].join(" · ");
  draw();
}

/** Puts the focus where the eye goes. */
export const focusOn = (selector: string) =>
  document.querySelector<HTMLElement>(selector)?.focus({ preventScroll: true });
