// What is marked at a container, the worst first: its risks, and the flags of how its usage runs. Each mark is a filter too.

import type { Workload } from "./inspect.js";

export interface Mark {
  name: string;
  label: string;
  tone: "bad" | "warn" | "usage" | "";
  holds: (workload: Workload) => boolean;
  /** It finds the flag's text, where it is one. */
  flag?: RegExp;
}

const risk = (name: string, label: string, tone: Mark["tone"]): Mark => ({
  name,
  label,
  tone,
  holds: ({ risks }) => risks.some((one) => one.risk === name),
});
const flagged = (name: string, label: string, tone: Mark["tone"], flag: RegExp): Mark => ({
  name,
  label,
  tone,
  flag,
  holds: ({ flags }) => flags.some((one) => flag.test(one)),
});
const flag = (name: string, label: string, tone: Mark["tone"], start = label): Mark =>
  flagged(name, label, tone, RegExp(`^${start}`));

/** Nobody knows what it uses, and nothing is recommended from what others of its image use. */
export const isUnmeasured = ({ evidence, cpu, memory }: Workload) =>
  evidence === "" && !cpu?.recommended && !memory?.recommended;

export const MARKS: Mark[] = [
  { name: "risk", label: "At risk", tone: "bad", holds: ({ risks }) => risks.length > 0 },
  risk("oomKilled", "OOM-killed", "bad"),
  {
    name: "blocked",
    label: "blocked now",
    tone: "bad",
    holds: ({ isBlocked, flags }) => isBlocked || flags.includes("blocked now"),
  },
  {
    name: "would-be-blocked",
    label: "advice blocked",
    tone: "warn",
    holds: ({ whole }) => whole?.blocked !== undefined,
  },
  risk("throttled", "throttled", "warn"),
  risk("aboveRequest", "above request", "warn"),
  risk("noRequest", "no request", "warn"),
  flag("stale", "last seen", "warn"),
  flagged("grows", "growing", "usage", /^(cpu|memory) grows/),
  flag("nightly", "nightly", "usage"),
  flag("weekly", "weekly", "usage"),
  flagged("times", "times a day", "usage", / times a day /),
  flag("at-start", "at start", "usage"),
  flag("once", "once", "usage"),
  flag("short-history", "short history", "warn"),
  flag("brief", "too little data", "warn"),
  flag("whole-cpus", "whole CPUs", "warn", "whole cpus"),
  flag("at-limit", "at its limit", "warn"),
  flag("crash-loop", "crash loop", "bad"),
  flag("rejected", "rejected", "bad"),
  flag("pods-differ", "pods differ", "usage"),
  flag("bursts", "bursts", "usage"),
  flag("below-peak", "below peak", "warn"),
  flag("reads", "reads", "warn"),
  flag("reserve", "reserve", "warn"),
  flag("twin", "twin of", "warn"),
  flag("standby", "standby of", "warn"),
  flag("device", "device", ""),
  flag("restarts", "restarts", "warn"),
  flag("vpa", "VPA", "warn", "vpa"),
  flag("keda", "KEDA", "", "keda"),
  flag("hpa", "HPA", "", "hpa"),
  flag("rollout", "rollout", ""),
  flag("static-pod", "static pod", ""),
  flag("qos", "QoS", "", "qos"),
  { name: "saves", label: "Saves", tone: "", holds: ({ saved }) => saved > 0 },
  {
    name: "unmeasured",
    label: "No usage data",
    tone: "",
    holds: isUnmeasured,
  },
];

/** Red is what is broken now, amber what is at risk: as the engine rates it, or else by the kind. */
export const toneOf = ({ risk, severity }: { risk: string; severity: string }): string =>
  ({ critical: "bad", warning: "warn" })[severity] ?? MARKS.find(({ name }) => name === risk)?.tone ?? "";

/** Filters that are no marks of a row. */
const SETS = ["risk", "saves", "unmeasured"];
/** Their flags say how much, how long, or of what. */
const TOLD = "stale restarts nightly weekly times at-start once short-history brief reads twin standby device".split(
  " ",
);
/** Flags that risks and patches show. */
const SHOWN = /^(oom|throttled|blocked|limit$|no usage)/;

/** The marks of a container with what each says in full. Flags that are no filter are marks all the same. */
export function marksOf(workload: Workload): { mark: Mark; label: string; title: string }[] {
  const flagsOf = ({ flag }: Mark) => workload.flags.filter((one) => flag?.test(one));
  const known = MARKS.filter(({ name, holds }) => !SETS.includes(name) && holds(workload));
  const named = new Set(known.flatMap(flagsOf));
  const others = workload.flags.filter((flag) => !named.has(flag) && !SHOWN.test(flag));
  return [
    ...known.map((mark) => {
      const flags = flagsOf(mark);
      const risks = workload.risks.filter(({ risk }) => risk === mark.name).map(({ text }) => text);
      // Times and details stand in the title.
      const label = flags[0] && TOLD.includes(mark.name) ? flags[0].replace(/ \(.*\)$/, "") : mark.label;
      return { mark, label, title: [...risks, ...flags].join("; ") || mark.label };
    }),
    ...others.map((label) => ({
      mark: { name: label, label, tone: "" as const, flag: /^/, holds: () => true },
      label,
      title: label,
    })),
  ];
}
