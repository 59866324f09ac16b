// What the engine takes and answers: playground/engine/src/play.rs and crates/dryrun/src/story.rs, as they are written in JSON.

export const PANELS = ["objects", "limitRanges", "quotas", "usage", "namespaces", "existing", "settings"] as const;
export type Panel = (typeof PANELS)[number];

export type Panels = Partial<Record<Panel, string>>;

/** The text of all panels. */
export interface State {
  namespace: string;
  panels: Panels;
}

export interface Outcome {
  rows: Row[];
  details: Detail[];
  quotas: Level[];
  problems: Problem[];
}

export type Verdict = "not checked" | "admitted" | "changed" | "pods blocked" | "rejected" | "invalid" | "error";

export interface Row {
  object: string;
  namespace: string;
  verdict: Verdict;
  isUpdate: boolean;
  line: number;
  warnings: number;
}

export interface Detail {
  row: number;
  message: string;
  story: Story;
  diff: Part[];
  podDiff: Part[] | null;
  note: string | null;
}

export interface Part {
  mark: "same" | "removed" | "added";
  text: string;
}

export interface Story {
  object: string;
  namespace?: string;
  verdict: Verdict;
  isOfPods: boolean;
  reasons?: string[];
  warnings?: string[];
  estimates?: string[];
  containers?: Container[];
  inAll?: Check[];
  quotas?: Taken[];
}

export interface Container {
  name: string;
  role: string;
  image: string;
  values: Field[];
}

export interface Field {
  field: string;
  value?: string;
  step: string;
  reason: string;
  checks?: Check[];
}

export interface Check {
  resource: string;
  edge: string;
  bound: string;
  range: string;
  request?: string;
  limit?: string;
  holds: boolean;
}

export interface Taken {
  quota: string;
  name: string;
  before: string;
  adds: string;
  after: string;
  hard: string;
  left: string;
}

export interface Level {
  namespace: string;
  quota: string;
  name: string;
  hard: string;
  before: string;
  after: string;
  /** In thousandths of `hard`. */
  share: [number, number] | null;
}

export interface Problem {
  panel: Panel;
  line: number;
  text: string;
}

export interface Replay {
  name: string;
  files: { name: string; text: string }[];
}

export interface Example extends State {
  name: string;
  title: string;
  group: string;
  shows: string;
}

/** What a snapshot of a cluster holds. */
export interface Overview {
  objects: number;
  namespaces: string[];
  quotas: Level[];
  limitRanges: string;
  quotaManifests: string;
  settings: string;
  advice: Advice | null;
}

/** What containers should request, as `kubectl headroom snapshot` wrote it: crates/rightsize/src/summary.rs. */
export interface Advice {
  lines: AdviceLine[];
  quotas: AdviceEffect[];
  notes: string[];
}

export interface AdviceLine {
  namespace: string;
  object: string;
  pods: number;
  container: string;
  resource: string;
  request: Amount | null;
  limit: Amount | null;
  recommended: Amount | null;
  change: string;
  usage: (Amount & { at: string })[];
  source: string;
}

/** As people write it, and in thousandths. */
export interface Amount {
  text: string;
  value: number;
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

/** What the panels would change of everything in a snapshot. */
export interface Trial {
  report: Report;
  namespaces: Limits[];
  problems: Problem[];
}

/** What LimitRanges and settings do in a namespace to a container that sets nothing. */
export interface Limits {
  namespace: string;
  story: Story;
}

export interface Report {
  summary: Record<"objects" | "newlyRefused" | "changed" | "noLongerRefused" | "stillRefused" | "notJudged" | "same" | "quotasNewlyExceeded", number>;
  objects: Effect[];
  quotas: QuotaEffect[];
  requests?: Record<string, string>;
  notLookedAt?: string[];
}

export interface Effect {
  object: string;
  namespace: string;
  running: number;
  change: string;
  reasons?: string[];
  values?: { container: string; field: string; now: string | null; then: string | null; reason: string }[];
  warnings?: string[];
}

export interface QuotaEffect {
  namespace: string;
  quota: string;
  name: string;
  used: string;
  remade: string;
  hard: string | null;
  newHard: string | null;
  left: string | null;
  newlyExceeded: boolean;
}
