// What the engine takes, and the recommendations of a snapshot. What the engine answers is in answers.ts, made of its Rust types.

import type * as Answers from "./answers.js";

export type {
  CheckedBound,
  ContainerValues,
  Detail,
  Effect,
  Limits,
  Measured,
  ObjectCharge,
  Outcome,
  Overview,
  Panel,
  Part,
  Problem,
  QuotaChange,
  QuotaEffect,
  Replay,
  Report,
  Row,
  Trial,
  Verdict,
} from "./answers.js";

export const PANELS = [
  "objects",
  "limitRanges",
  "quotas",
  "usage",
  "namespaces",
  "existing",
  "settings",
] as const satisfies Answers.Panel[];

export type Panels = Partial<Record<Answers.Panel, string>>;

/** The text of all panels. */
export interface State {
  namespace: string;
  panels: Panels;
}

export type Example = Answers.Example & State;

/** What containers should request, as `kubectl headroom snapshot` wrote it: crates/recommend/src/output/summary.rs. */
export interface Advice {
  /** What is at risk and what nobody has measured, in a sentence. */
  headline?: string;
  /** Where usage was read. */
  source?: string;
  total?: Total;
  risks?: Risk[];
  lines: AdviceLine[];
  quotas: AdviceEffect[];
  notes: string[];
  /** The cost of the requests and how it would change, at which prices. */
  money?: string;
  /** Lines for the first recommendations that would be blocked; each workload names its own. */
  blocked?: string[];
  workloads?: OfWorkload[];
  /** `nightly: it is busy …` for each flag. */
  flagsExplained?: string[];
}

/** What is wrong with a workload now, the worst first: crates/dry-run/src/why.rs. */
export interface Why {
  state: string;
  findings: {
    severity: "critical" | "warning" | "note";
    problem: string;
    details?: string[];
    since?: string;
    command: string;
  }[];
  deciders: { who: string; decides: string; command?: string }[];
}

/** A workload with the patches that are handed out for it, in the order in which they are applied. */
export interface OfWorkload {
  namespace: string;
  object: string;
  qosClass?: string;
  qosClassAfter?: string;
  /** Everybody who decides besides the author: `Argo CD application shop`. */
  decidedBy?: string[];
  /** What autoscalers would do; their targets are in the patches. */
  autoscalers?: string[];
  notes?: string[];
  /** The reason why there are no patches, and what fits. */
  blocked?: string;
  /** The reason why it cannot be patched, whatever is recommended. */
  unpatched?: string;
  patches?: { object: string; type: string; text: string; command: string }[];
}

/** Sums over all containers with a recommendation. */
export interface Total {
  workloads: number;
  containers: number;
  withoutAdvice: number;
  withoutUsage: number;
  cpu: Sum;
  memory: Sum;
  costAMonth?: string;
  freedAMonth?: string;
  addedAMonth?: string;
  savedAMonth?: string;
  /** A symbol or a code, where somebody says what money it is. */
  currency?: string;
}

export interface Sum {
  requested: string;
  recommended: string;
  saved: string;
}

/** A container in trouble, and what helps. */
export interface Risk {
  namespace: string;
  kind: string;
  name: string;
  container: string;
  severity?: string;
  risk: "oomKilled" | "throttled" | "aboveRequest" | "noRequest";
  text: string;
  fix: string;
}

export interface AdviceLine {
  namespace: string;
  object: string;
  pods: number;
  container: string;
  isInit?: boolean;
  resource: string;
  request?: Amount | null;
  limit?: Amount | null;
  recommended?: Amount | null;
  recommendedLimit?: Amount | null;
  /** Of the image, where neither usage nor the author says anything. */
  typical?: Amount | null;
  /** How long and on how many pods usage was measured. */
  evidence?: string | null;
  /** Too little usage was measured to recommend anything. */
  tooBrief?: boolean;
  /** In thousandths, over all pods, as scheduler and quotas count them; none where nobody else can use it, as beside a GPU. */
  saved?: number;
  /** `oom 3`, `throttled 31%`, `hpa` */
  flags?: string[];
  change: string;
  /** In thousandths. */
  usage: { at: string; value: number }[];
  source: string;
  /** Of the container, on the first of its lines. */
  course?: Timeline;
  savedAMonth?: string;
}

/** The peak of usage in each day or hour, and what happened in between: crates/recommend/src/history/timeline.rs. Times are in Unix seconds. */
export interface Timeline {
  from: number;
  step: number;
  /** In thousandths of a core. */
  cpu: (number | null)[];
  /** In KiB. */
  memory: (number | null)[];
  kills: number[];
  releases: number[];
}

/** As people write it, and in thousandths. */
export interface Amount {
  text: string;
  value: number;
}

/** Pods that the API server rejected lately: crates/recommend/src/output/rejections.rs. */
export interface Rejections {
  groups: Rejection[];
  /** More are known than are listed. */
  isCut: boolean;
  /** Why Events are missing. */
  problem: string | null;
}

/** Rejections for one reason in one namespace. */
export interface Rejection {
  namespace: string;
  /** The first few of them, as `deployment/web`. */
  workloads: string[];
  workloadCount: number;
  /** How many of them are blocked now. */
  blocked: number;
  message: string;
  /** How often Events tell of it. */
  count: number;
  first: string | null;
  last: string | null;
}

/** What `headroom-controller resize` did and would do, as `kubectl headroom resize -o json` has it: crates/cli/src/command/resize/changes.rs. */
export interface Resizes {
  changes: {
    workload: string;
    raised: number;
    lowered: number;
    quiet: number;
    last: string;
    what?: string;
    why: string;
  }[];
  underWay: { workload: string; pod: string; change: string; why: string; state: string }[];
  leftAlone: { workload: string; container: string; what: string; until: string; why: string; isTakenBack: boolean }[];
  notDone: { namespace: string; object: string; reason: string; time: string; what: string }[];
}

/** What taking all advice does to a quota. */
export interface AdviceEffect {
  namespace: string;
  quota: string;
  resource: string;
  used: string;
  hard: string;
  change: string;
  usedAfter: string;
  fits: boolean;
}

/** Proposed bounds, as `kubectl headroom recommend bounds` prints them with `-o json`: crates/cli/src/command/recommend/bounds.rs. */
export interface Bounds {
  about: string;
  quotas?: ProposedQuota[];
  limitRanges?: ProposedLimits[];
  trial: {
    objects: number;
    changed: number;
    rejected: { namespace: string; object: string; reasons: string[] }[];
    exceeded?: string[];
    missed?: string[];
  };
  notes?: string[];
  /** Of each quota, and then of each LimitRange. */
  yaml: string[];
}

export interface ProposedQuota {
  kind: string;
  namespace?: string;
  name: string;
  amounts: {
    resource: string;
    used: string;
    hard?: string;
    proposed: string;
    unused?: string;
    unusedThen: string;
    full?: string;
    fullThen?: string;
    reason: string;
  }[];
}

export interface ProposedLimits {
  namespace: string;
  name: string;
  bounds: { field: string; resource: string; today?: string; proposed?: string; reason: string }[];
  beside?: string[];
}
