// What the engine takes, and the recommendations of a snapshot. What the engine answers is in answers.ts, made of its Rust types.

import type * as Answers from "./answers.js";

export type {
  Check, Container, Detail, Effect, Explanation, Field, Level, Limits, Outcome, Panel, Part, Problem, QuotaEffect, Replay, Report, Row, Taken, Trial, Verdict,
} from "./answers.js";

export const PANELS = ["objects", "limitRanges", "quotas", "usage", "namespaces", "existing", "settings"] as const satisfies Answers.Panel[];

export type Panels = Partial<Record<Answers.Panel, string>>;

/** The text of all panels. */
export interface State {
  namespace: string;
  panels: Panels;
}

export type Example = Answers.Example & State;

/** What a snapshot of a cluster holds. */
export type Overview = Omit<Answers.Overview, "advice"> & { advice: Advice | null };

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
