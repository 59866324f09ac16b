// A rejection in plain words with its fix, made of the checks that did not hold. Nothing that was printed is parsed.

import { thousandths, withUnit } from "./amounts.js";
import { Located, type Span } from "./locate.js";
import type { CheckedBound, Detail, ObjectCharge, Row, Verdict } from "./types.js";

/** A text with names and quantities in it, which are set as code. */
export type Words = (string | { code: string })[];

export interface Finding {
  headline: string;
  words: Words;
  /** What to change in the manifest, where one value helps. */
  fix?: { container: string; field: string; to: string; words: Words };
}

const code = (text: string) => ({ code: text });

/** What an object and the pods that it makes take from quotas. */
export function chargesOf({ charges = [], podCharges = [] }: Detail["story"]): ObjectCharge[] {
  return [...charges, ...podCharges];
}

/** What is wrong with an object; empty where only its own words say it. */
export function findings({ story }: Detail): Finding[] {
  const found: Finding[] = [];
  for (const { name, values } of story.containers ?? []) {
    for (const { field, value, checks = [] } of values) {
      for (const check of checks) if (!check.holds) found.push(ofContainer(name, field, value, check));
    }
  }
  for (const check of story.inAll ?? []) if (!check.holds) found.push(ofAll(check));
  for (const charge of chargesOf(story)) {
    for (const { name, before, added, hard, left } of charge.added) {
      if (!left.startsWith("-")) continue;
      const [used, more, most] = [before, added, hard].map((text) => thousandths(text) ?? 0) as [
        number,
        number,
        number,
      ];
      found.push({
        headline: "Quota has no room",
        words: [
          "quota ",
          code(charge.quota),
          ` has ${withUnit(name, Math.max(0, most - used))} of `,
          code(name),
          ` left, ${withUnit(name, more)} needed.`,
        ],
      });
    }
  }
  return found;
}

/** `LimitRange limits` with its name as code. */
function named(range: string): Words {
  const at = range.indexOf(" ") + 1;
  return [range.slice(0, at), code(range.slice(at))];
}

function ofContainer(
  container: string,
  field: string,
  value: string | undefined,
  { edge, bound, range }: CheckedBound,
): Finding {
  const [kind, resource] = field.startsWith("limits.") ? ["limit", field.slice(7)] : ["request", field.slice(9)];
  const what = `${resource === "cpu" ? "CPU" : resource[0]!.toUpperCase() + resource.slice(1)} ${kind}`;
  const sets: Words =
    value === undefined
      ? ["container ", code(container), ` sets no ${what.toLowerCase()}`]
      : ["container ", code(container), " sets ", code(value)];
  const path = code(`resources.${field}`);
  if (edge === "max" || edge === "min") {
    const [high, allows, verb, way] =
      edge === "max" ? ["too high", "at most", "Lower", "less"] : ["too low", "at least", "Raise", "more"];
    const headline = value === undefined ? `${what} is missing` : `${what} is ${high}`;
    const words: Words = [...sets, ", ", ...named(range), ` allows ${allows} `, code(bound), "."];
    return {
      headline,
      words,
      fix: {
        container,
        field,
        to: bound,
        words: [value === undefined ? "Set " : `${verb} `, path, " to ", code(bound), ` or ${way}.`],
      },
    };
  }
  return {
    headline: `${what} is too far above the request`,
    words: [...sets, ", ", ...named(range), " allows at most ", code(bound), " times the request."],
  };
}

function ofAll({ resource, edge, bound, range, request, limit }: CheckedBound): Finding {
  const sum = edge === "max" ? limit : request;
  const words: Words = [
    "in total ",
    code(sum ?? "nothing"),
    ", ",
    ...named(range),
    ` allows ${edge === "min" ? "at least" : "at most"} `,
    code(bound),
    ".",
  ];
  return { headline: `${resource === "cpu" ? "CPU" : resource} is too ${edge === "min" ? "low" : "high"}`, words };
}

/** How each verdict is shown, the worst first. */
export const VERDICTS: Record<Verdict, { label: string; tone: "bad" | "warn" | "info" | "good" | "" }> = {
  error: { label: "Error", tone: "bad" },
  invalid: { label: "Invalid", tone: "bad" },
  rejected: { label: "Rejected", tone: "bad" },
  "pods blocked": { label: "Pods blocked", tone: "warn" },
  changed: { label: "Changed", tone: "info" },
  admitted: { label: "Admitted", tone: "good" },
  "not checked": { label: "Not checked", tone: "" },
};

/** Whether something has to be done about an object. */
export const isFailure = (verdict: Verdict): boolean => ["bad", "warn"].includes(VERDICTS[verdict].tone);

/** The changes of a text that a fix makes. */
export interface Edit extends Span {
  insert: string;
}

/** Something to show at a line of a panel. */
export interface Mark {
  /** From 1. */
  line: number;
  severity: "error" | "warning" | "info";
  text: string;
  /** The part of the text concerned; the whole line otherwise. */
  span?: Span;
  fix?: { name: string; changes: Edit[] };
}

/** A fix and where it goes; a request above the new limit follows it. */
export function edits(located: Located, { container, field, to }: NonNullable<Finding["fix"]>, text: string): Edit[] {
  const at = located.resource(container, field);
  if (!at) return [];
  const all: Edit[] = [{ ...at, insert: to }];
  if (field.startsWith("limits.")) {
    const request = located.resource(container, field.replace("limits.", "requests."));
    const now = request && thousandths(text.slice(request.from, request.to).replaceAll(/["']/g, ""));
    if (request && now !== undefined && now > (thousandths(to) ?? 0)) all.push({ ...request, insert: to });
  }
  return all.sort((a, b) => a.from - b.from);
}

export const lineAt = (text: string, position: number): number => text.slice(0, position).split("\n").length;

/** What to show at the fields of the objects; at an object's name what has no field. */
export function marksOf(rows: Row[], details: Detail[], text: string): Mark[] {
  const of = new Map(details.map((detail) => [detail.row, detail]));
  return rows.flatMap((row, index): Mark[] => {
    const detail = of.get(index);
    const { tone } = VERDICTS[row.verdict];
    if (!detail)
      return tone === "bad" ? [{ line: row.line, severity: "error", text: `${row.object}: ${row.verdict}` }] : [];
    const severity = tone === "bad" ? "error" : "warning";
    const found = isFailure(row.verdict) ? findings(detail) : [];
    const warnings = tone === "bad" ? [] : (detail.story.warnings ?? []).map(({ message }) => message);
    const located = found.length > 0 || warnings.length > 0 || tone === "bad" ? new Located(text, row.line) : undefined;
    const named = located?.object();
    const place = { line: row.line, ...(named ? { span: named } : {}) };
    const marks = found.map((finding): Mark => {
      const said = `${finding.headline}: ${plain(finding.words)}`;
      const { fix } = finding;
      const at = fix && located && (located.resource(fix.container, fix.field) ?? located.name(fix.container));
      if (!fix || !located || !at) return { ...place, severity, text: said };
      const changes = edits(located, fix, text);
      return {
        line: row.line,
        span: at,
        severity,
        text: said,
        ...(changes.length > 0 ? { fix: { name: `Set to ${fix.to}`, changes } } : {}),
      };
    });
    if (tone === "bad" && marks.length === 0)
      marks.push({ ...place, severity, text: detail.message || `${row.object}: ${row.verdict}` });
    marks.push(...warnings.map((warning): Mark => ({ ...place, severity: "warning", text: warning })));
    return marks;
  });
}

export const plain = (words: Words): string =>
  words.map((word) => (typeof word === "string" ? word : word.code)).join("");
