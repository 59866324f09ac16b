// Made of the engine's types by playground/engine/tests/engine/types.rs.

export interface Check {
  bound: string;
  /** `min`, `max` or `ratio`. */
  edge: string;
  holds: boolean;
  limit?: string;
  range: string;
  request?: string;
  resource: string;
}

export interface Container {
  image: string;
  name: string;
  role: string;
  values: Field[];
}

export interface Detail {
  /** The object after admission. */
  diff: Part[];
  /** The whole refusal as the policy words it; empty if there is none. */
  message: string;
  note: string | null;
  /** A pod that the workload creates, after admission. */
  podDiff: Part[] | null;
  /** The row that it is about. */
  row: number;
  story: Explanation;
}

export interface Effect {
  change: string;
  namespace: string;
  object: string;
  reasons?: string[];
  running: number;
  values?: ValueChange[];
  warnings?: string[];
}

export interface Example {
  group: string;
  /** The name of the scenario's file. */
  name: string;
  namespace: string;
  panels: Record<string, string>;
  shows: string;
  title: string;
}

export interface Explanation {
  containers?: Container[];
  estimates?: string[];
  /** Bounds of the pod in total, or of a claim. */
  inAll?: Check[];
  /** The containers are those of the pods that the object makes. */
  isOfPods: boolean;
  namespace?: string;
  object: string;
  quotas?: Taken[];
  reasons?: string[];
  verdict: Verdict;
  warnings?: string[];
}

/** A value, or that there is none. */
export interface Field {
  checks?: Check[];
  /** `requests.cpu` */
  field: string;
  reason: string;
  /** `authored`, `estimated`, `defaulted`, `repaired`, … */
  step: string;
  /** The usage that an estimate is made from, in rising order. */
  usage?: Measured[];
  value?: string;
}

export interface File {
  name: string;
  text: string;
}

/** The usage of a quota under one name. */
export interface Level {
  /** The amount that is used after all admitted objects, pods of workloads included. */
  after: string;
  /** The amount that is used before the objects are applied. */
  before: string;
  hard: string;
  name: string;
  namespace: string;
  quota: string;
  /** Both in thousandths of `hard`; none where that is nothing. */
  share: [number, number] | null;
}

/** The effect of LimitRanges and settings together in a namespace, shown by a container that sets nothing. */
export interface Limits {
  namespace: string;
  story: Explanation;
}

export type Mark = "same" | "removed" | "added";

/** A percentile of a UsageProfile. */
export interface Measured {
  amount: string;
  /** `p95`, `peak` */
  at: string;
}

export interface Outcome {
  /** The stories of those that were asked for. */
  details: Detail[];
  /** The parts of the panels that cannot be used. */
  problems: Problem[];
  quotas: Level[];
  /** Every object that was read, in order. */
  rows: Row[];
}

/** A summary of a snapshot, when it is opened. */
export interface Overview {
  /** As panels, to be changed. Everything is evaluated now by these settings; by the defaults if there are none. */
  limitRanges: string;
  namespaces: string[];
  objects: number;
  quotaManifests: string;
  quotas: Level[];
  settings: string;
}

export type Panel = "limitRanges" | "quotas" | "namespaces" | "settings" | "objects" | "usage" | "existing";

/** Some lines that share a mark. */
export interface Part {
  mark: Mark;
  text: string;
}

export interface Problem {
  /** From 1. */
  line: number;
  panel: Panel;
  text: string;
}

/** A bound or usage of a quota that would change. */
export interface QuotaEffect {
  /** None for a quota that is new. */
  hard: string | null;
  /** The rest of the bound then; below zero if there is too little. */
  left: string | null;
  name: string;
  /** Empty for a TenantQuota. */
  namespace: string;
  /** None if it is not bounded any more. */
  newHard: string | null;
  /** True if there would be too little room, and was enough. */
  newlyExceeded: boolean;
  quota: string;
  /** The usage if all were recreated. */
  remade: string;
  used: string;
}

export interface Replay {
  files: File[];
  /** `pod-db-0` */
  name: string;
}

export interface Report {
  notLookedAt?: string[];
  /** Everything that is not the same. */
  objects: Effect[];
  quotas: QuotaEffect[];
  /** The additional requests of the changed objects, by resource; negative if they free some. */
  requests?: Record<string, string>;
  summary: Summary;
}

export interface Row {
  isUpdate: boolean;
  /** Where it stands in its panel, from 1. */
  line: number;
  namespace: string;
  /** `deployment.apps/web` */
  object: string;
  verdict: Verdict;
  warnings: number;
}

export interface Summary {
  changed: number;
  newlyRejected: number;
  noLongerRejected: number;
  notEvaluated: number;
  objects: number;
  quotasNewlyExceeded: number;
  same: number;
  stillRejected: number;
}

export interface Taken {
  adds: string;
  after: string;
  before: string;
  hard: string;
  left: string;
  name: string;
  quota: string;
}

export interface Trial {
  namespaces: Limits[];
  problems: Problem[];
  report: Report;
}

/** A value that would be another. */
export interface ValueChange {
  /** `container web` */
  container: string;
  /** `requests.cpu` */
  field: string;
  now: string | null;
  /** The origin of the new value. */
  reason: string;
  then: string | null;
}

/** The verdicts, from harmless to bad. */
export type Verdict = "admitted" | "rejected" | "not checked" | "changed" | "pods blocked" | "invalid" | "error";
