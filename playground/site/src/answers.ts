// Made of the engine's types by playground/engine/tests/engine/types.rs.

/** The amount under one name of a quota. */
export interface ChargedAmount {
  added: string;
  /** The level that it meets. */
  before: string;
  hard: string;
  /** The rest of the bound afterwards, negative where it is exceeded. */
  left: string;
  name: string;
  /** The level afterwards. */
  used: string;
}

/** A bound that a container, a pod or a claim was checked against. */
export interface CheckedBound {
  bound: string;
  edge: Edge;
  holds: boolean;
  limit?: string;
  /** `LimitRange limits` */
  range: string;
  request?: string;
  resource: string;
}

/** The values of one container. */
export interface ContainerValues {
  image: string;
  name: string;
  role: string;
  /** Requests before limits, each by name; CPU and memory also where they are unset. */
  values: ResourceValue[];
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
  story: ObjectDecision;
}

/** The kind of a bound. */
export type Edge = "min" | "max" | "ratio";

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

export interface File {
  name: string;
  text: string;
}

/** The effect of LimitRanges and settings together in a namespace, shown by a container that sets nothing. */
export interface Limits {
  namespace: string;
  story: ObjectDecision;
}

export type Mark = "same" | "removed" | "added";

/** A percentile of a UsageProfile. */
export interface Measured {
  amount: string;
  /** `p95`, `peak` */
  at: string;
}

/** The charge of an object to one quota. */
export interface ObjectCharge {
  added: ChargedAmount[];
  /** True for a TenantQuota. */
  isTenant: boolean;
  quota: string;
}

/** The decision on one object. As JSON it is what `check` and `why` print, and what the page shows. */
export interface ObjectDecision {
  /** The object's charges to quotas. */
  charges?: ObjectCharge[];
  /** The pod's values after the evaluation, and who set each; none if the pod would not be touched. */
  containers?: ContainerValues[];
  /** The estimates that no warning shows in full, whether set or only reported. */
  estimates?: string[];
  /** Bounds of the pod in total, or of a claim. */
  inAll?: CheckedBound[];
  /** The containers are those of the pods that the object makes. */
  isOfPods?: boolean;
  /** Its own name, or what its name is to be generated from. */
  name?: string;
  /** Empty for kinds that live in none. */
  namespace?: string;
  /** As kubectl prints its name: `deployment.apps/web`. */
  object: string;
  operation: Operation;
  /** The most that the pods of a workload add to quotas. */
  podCharges?: ObjectCharge[];
  /** The reasons for a refusal, or for not evaluating it; each stands alone. */
  reasons?: RejectionReason[];
  verdict: Verdict;
  warnings?: ObjectWarning[];
}

/** A warning. It displays as its message. */
export interface ObjectWarning {
  /** The container, resource or quota concerned, whatever the words: `container web: cpu`, `quota team`; empty for the object as a whole. */
  about?: string;
  /** The topic of the reason why pods of the object cannot be created. */
  blocksPods?: Topic;
  /** For a person without access to the policy server. */
  message: string;
}

export type Operation = "create" | "update";

export interface Outcome {
  /** The stories of those that were asked for. */
  details: Detail[];
  /** The parts of the panels that cannot be used. */
  problems: Problem[];
  quotas: QuotaChange[];
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
  quotas: QuotaChange[];
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

/** The usage of a quota under one name: after all admitted objects, pods of workloads included. */
export interface QuotaChange {
  /** The amount that is used before the objects are applied. */
  before: string;
  /** None if only usage is known. */
  hard: string | null;
  /** Empty for a TenantQuota. */
  namespace: string;
  quota: string;
  resource: string;
  /** Both in thousandths of `hard`; none where that is nothing. */
  share: [number, number] | null;
  used: string;
}

/** A bound or usage of a quota that would change. */
export interface QuotaEffect {
  /** None if only usage is known. */
  hard: string | null;
  /** The rest of the bound then; below zero if there is too little. */
  left: string | null;
  /** Empty for a TenantQuota. */
  namespace: string;
  /** None if it is not bounded any more. */
  newHard: string | null;
  /** True if there would be too little room, and was enough. */
  newlyExceeded: boolean;
  quota: string;
  /** The usage if all were recreated. */
  remade: string;
  resource: string;
  used: string;
}

/** One reason why an object is not admitted. */
export interface RejectionReason {
  /** For a person without access to the policy server. */
  message: string;
  topic: Topic;
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

/** A request or limit and who set it, or that there is none. */
export interface ResourceValue {
  checks?: CheckedBound[];
  /** `requests.cpu` */
  field: string;
  /** It was decided now. */
  isNew?: boolean;
  /** `default of LimitRange limits` */
  reason: string;
  /** `authored`, `estimated`, `defaulted`, `repaired`, … */
  step: string;
  /** The usage that an estimate is made from, in rising order. */
  usage?: Measured[];
  value?: string;
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

/** The topic of a reason. */
export type Topic = "quota" | "limits" | "invalid" | "missing-context";

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
