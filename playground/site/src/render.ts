// An outcome as a part of the page.

import { type Keep, h } from "./dom.js";
import type { Mark } from "./editor.js";
import { PAGE } from "./engine.js";
import type { Advice, AdviceEffect, AdviceLine, Check, Container, Detail, Level, Outcome, Overview, Panel, Part, Problem, QuotaEffect, Effect, Limits, Row, Taken, Trial, Verdict } from "./types.js";

export interface Actions {
  goTo(panel: Panel, line: number): void;
  download(row: number): void;
  /** Shows the objects from this one on. */
  turnTo(row: number): void;
  labels: Record<Panel, string>;
}

const VERDICTS: Verdict[] = ["error", "invalid", "rejected", "pods blocked", "changed", "admitted", "not checked"];
const FAILED: Verdict[] = ["error", "invalid", "rejected", "pods blocked"];

/** `3 objects: 1 rejected, 1 changed, 1 admitted` */
export function summary(rows: Row[]): string {
  const counts = VERDICTS.map((verdict) => [rows.filter((row) => row.verdict === verdict).length, verdict] as const);
  const told = counts.filter(([count]) => count > 0).map(([count, verdict]) => `${count} ${verdict}`);
  const objects = rows.length === 1 ? "1 object" : `${rows.length} objects`;
  return rows.length === 0 ? "No objects" : `${objects}: ${told.join(", ")}`;
}

/** Everything below the summary. */
export function results(outcome: Outcome, from: number, keep: Keep, actions: Actions): (Node | null)[] {
  return [keptProblems(outcome.problems, keep, actions), keptQuotas(outcome.quotas, keep), ...objects(outcome, from, keep, actions)];
}

const keptProblems = (found: Problem[], keep: Keep, actions: Pick<Actions, "goTo" | "labels">) => keep(["problems", found], () => problems(found, actions));
const keptQuotas = (levels: Level[], keep: Keep) => keep(["quotas", levels], () => quotas(levels));

function problems(problems: Problem[], actions: Pick<Actions, "goTo" | "labels">): Node | null {
  if (problems.length === 0) return null;
  const item = ({ panel, line, text }: Problem) =>
    h(
      "li",
      {},
      h("button", { type: "button", class: "place", click: () => actions.goTo(panel, line) }, `${actions.labels[panel]}, line ${line}`),
      " ",
      text,
    );
  return h("section", { class: "problems", "aria-label": "Problems in the panels" }, h("h2", {}, "Problems"), h("ul", {}, ...problems.slice(0, 100).map(item)));
}

function objects({ rows, details }: Outcome, from: number, keep: Keep, actions: Actions): (Node | null)[] {
  if (rows.length === 0) return [];
  const shown = details.map((detail) => {
    const row = rows[detail.row]!;
    return keep([row, detail], () => object(row, detail, actions));
  });
  const heading = keep("objects", () => h("h2", {}, "Objects"));
  if (rows.length <= PAGE) return [heading, ...shown];
  const next = rows.findIndex((row, index) => index >= from + PAGE && FAILED.includes(row.verdict));
  return [heading, pages(from, PAGE, rows.length, actions, ["Next refused", next]), ...shown];
}

/** Buttons to turn pages of so many of all. */
function pages(from: number, size: number, all: number, actions: Pick<Actions, "turnTo">, ...further: [label: string, row: number][]): Node {
  const to = Math.min(from + size, all);
  const turn = ([label, row]: [label: string, row: number]) =>
    h("button", { type: "button", "data-focus": label, disabled: row < 0, click: () => actions.turnTo(row) }, label);
  return h(
    "nav",
    { class: "pages", "aria-label": "Pages of objects", tabindex: "-1" },
    turn(["Previous", from > 0 ? Math.max(0, from - size) : -1]),
    h("span", {}, `${from + 1} to ${to} of ${all}`),
    turn(["Next", to < all ? to : -1]),
    ...further.map(turn),
  );
}

function object(row: Row, { row: index, message, story, diff, podDiff, note }: Detail, actions: Actions): Node {
  const isChanged = diff.some((part) => part.mark !== "same");
  return h(
    "article",
    { class: `object ${slug(row.verdict)}`, "data-object": row.object, "aria-label": `${row.object}: ${row.verdict}` },
    h(
      "header",
      {},
      h("span", { class: "verdict" }, row.verdict),
      h("h3", {}, row.object),
      row.namespace !== "" && h("span", { class: "namespace" }, `namespace ${row.namespace}`),
      row.isUpdate && h("span", { class: "namespace" }, "update"),
      h("button", { type: "button", class: "place", click: () => actions.goTo("objects", row.line) }, `line ${row.line}`),
    ),
    message !== "" && h("p", { class: "message" }, message),
    ...(story.warnings ?? []).map((warning) => h("p", { class: "warning" }, h("strong", {}, "Warning: "), h("span", {}, warning))),
    ...(story.estimates ?? []).map((estimate) => h("p", { class: "estimate" }, `Estimate: ${estimate}`)),
    note !== null && h("p", { class: "note" }, note),
    fold("Object after admission", isChanged, difference(diff, `${row.object} after admission`)),
    podDiff !== null && fold("A pod that it makes, after admission", true, difference(podDiff, `A pod of ${row.object}`)),
    story.containers !== undefined && fold(story.isOfPods ? "Values of each pod" : "Values", isChanged, ...story.containers.map((one) => container(one))),
    story.inAll !== undefined && fold(story.containers === undefined ? "Bounds of the claim" : "Bounds of the pod total", true, totals(story.inAll)),
    story.quotas !== undefined && fold("Quota usage including this object", true, taken(story.quotas)),
    h("p", { class: "actions" }, h("button", { type: "button", click: () => actions.download(index) }, "Download as kwctl replay")),
  );
}

function fold(title: string, isOpen: boolean, ...content: Node[]): Node {
  return h("details", { open: isOpen }, h("summary", {}, title), ...content);
}

const SIGNS = { same: " ", removed: "-", added: "+" } as const;
/** Lines of context around a change. */
const CONTEXT = 4;

function difference(parts: Part[], label: string): Node {
  const isChanged = parts.some((part) => part.mark !== "same");
  const element = h("pre", { tabindex: "0", role: "group", "aria-label": label, class: "difference" });
  for (const [index, { mark, text }] of parts.entries()) {
    const lines = text.replace(/\n$/, "").split("\n");
    if (mark !== "same") {
      const tag = mark === "added" ? "ins" : "del";
      element.append(h(tag, {}, lines.map((line) => `${SIGNS[mark]} ${line}\n`).join("")));
      continue;
    }
    const head = index === 0 ? 0 : CONTEXT;
    const tail = index === parts.length - 1 ? 0 : CONTEXT;
    const shown = (some: string[]) => some.map((line) => `  ${line}\n`).join("");
    if (!isChanged || lines.length <= head + tail + 2) element.append(shown(lines));
    else {
      element.append(shown(lines.slice(0, head)));
      element.append(h("span", { class: "unchanged" }, `  … ${lines.length - head - tail} unchanged lines\n`));
      element.append(shown(lines.slice(lines.length - tail)));
    }
  }
  return element;
}

function container({ name, role, image, values }: Container, caption = `${role} ${name}, image ${image}`): Node {
  const rows = values.map(({ field, value, step, reason, checks = [] }) =>
    h(
      "tr",
      { class: slug(step) },
      h("th", { scope: "row" }, field),
      h("td", { class: "amount" }, value ?? "-"),
      h("td", {}, step === "unset" ? "unset" : reason),
      h("td", {}, ...checks.map(bound)),
    ),
  );
  return table(caption, ["Field", "Value", "Source", "Bounds"], rows);
}

/** `max 1 met (LimitRange limits)` */
function bound({ edge, bound, range, holds }: Check): Node {
  return h("span", { class: holds ? "holds" : "broken" }, `${edge} ${bound} ${holds ? "met" : "not met"} (${range}) `);
}

function totals(checks: Check[]): Node {
  const rows = checks.map((check) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, check.resource),
      h("td", { class: "amount" }, check.request ?? "-"),
      h("td", { class: "amount" }, check.limit ?? "-"),
      h("td", {}, bound(check)),
    ),
  );
  return table("", ["Resource", "Request", "Limit", "Bounds"], rows);
}

function taken(all: Taken[]): Node {
  const rows = all.map(({ quota, name, before, adds, after, hard, left }) =>
    h(
      "tr",
      { class: left.startsWith("-") ? "exceeded" : "" },
      h("th", { scope: "row" }, `${quota}: ${name}`),
      ...[before, adds, after, hard, left].map((cell) => h("td", { class: "amount" }, cell)),
    ),
  );
  return table("", ["Quota", "Used", "Change", "After", "Hard", "Available"], rows);
}

function quotas(levels: Level[]): Node | null {
  if (levels.length === 0) return null;
  const namespaces = new Set(levels.map((level) => level.namespace)).size;
  const rows = levels.slice(0, MOST_ROWS).map((level) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, `${namespaces > 1 ? `${level.namespace}/` : ""}${level.quota}: ${level.name}`),
      h("td", { class: "amount" }, level.before),
      h("td", { class: "amount" }, level.after),
      h("td", { class: "amount" }, level.hard),
      h("td", { class: "bar-cell" }, level.share && bar(level.share)),
    ),
  );
  return h("section", {}, h("h2", {}, "Quotas"), table("", ["Quota", "Used before", "Used after", "Hard", "Share"], rows), more(levels));
}

/** So many rows of a table are shown. */
const MOST_ROWS = 1000;

const more = (rows: unknown[], most = MOST_ROWS): Node | null => (rows.length > most ? h("p", { class: "note" }, `${rows.length - most} more are not shown. A snapshot of fewer namespaces shows all of theirs.`) : null);

/** How full a quota is: what is used already, and what the objects add. */
function bar([before, after]: [number, number]): Node {
  const percent = (share: number) => Math.min(100, share / 10);
  const used = h("span", { class: "used" });
  used.style.width = `${percent(Math.min(before, after))}%`;
  const added = h("span", { class: after > 1000 ? "added full" : "added" });
  added.style.width = `${percent(after) - percent(Math.min(before, after))}%`;
  return h("span", { class: "gauge" }, h("span", { class: "bar", "aria-hidden": "true" }, used, added), h("span", {}, `${Math.floor(after / 10)}%`));
}

/** A table that scrolls by itself where it is wider than the page. */
function table(caption: string, heads: string[], rows: Node[]): Node {
  return h(
    "div",
    { class: "table", tabindex: "0", role: "group", "aria-label": caption || heads[0] + " table" },
    h("table", {}, caption !== "" && h("caption", {}, caption), h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, ...rows)),
  );
}

/** `500 workloads and pods: 10 newly refused, 490 the same` */
export function trialSummary({ report: { summary } }: Trial): string {
  const told = (Object.entries(WORDS) as [keyof typeof WORDS, string][])
    .filter(([name]) => summary[name] > 0)
    .map(([name, words]) => `${summary[name]} ${words}`);
  const exceeded = summary.quotasNewlyExceeded;
  if (exceeded > 0) told.push(`${exceeded} quota ${exceeded === 1 ? "bound" : "bounds"} newly exceeded`);
  return `${summary.objects} workloads and pods: ${told.join(", ")}`;
}

const WORDS = {
  newlyRefused: "newly refused",
  notJudged: "not judged",
  changed: "changed",
  noLongerRefused: "no longer refused",
  stillRefused: "still refused",
  same: "the same",
};

/** So many effects are on a page. */
export const EFFECTS = 200;

/** What the panels would change of everything that runs. */
export function trial({ report, namespaces, problems: found }: Trial, overview: Overview, from: number, keep: Keep, actions: Actions): (Node | null)[] {
  const { objects, quotas: bounds, requests, notLookedAt = [] } = report;
  return [
    keptProblems(found, keep, actions),
    notLookedAt.length > 0 ? h("ul", {}, ...notLookedAt.map((text) => h("li", {}, text))) : null,
    bounds.length > 0 ? keep(["remade", bounds], () => h("section", {}, h("h2", {}, "Quotas if everything was recreated"), table("", ["Quota", "Used", "If recreated", "Hard", "New hard", "Available"], bounds.slice(0, MOST_ROWS).map(quotaEffect)), more(bounds))) : null,
    objects.length > 0 ? h("h2", {}, "Changes") : null,
    requests ? h("p", { class: "note" }, `Requests of the changed objects: ${Object.entries(requests).map(signed).join(", ")}.`) : null,
    objects.length > EFFECTS ? pages(from, EFFECTS, objects.length, actions) : null,
    ...objects.slice(from, from + EFFECTS).map((object) => keep(object, () => effect(object))),
    objects.length === 0 && bounds.length === 0 ? h("p", { class: "note" }, "No changes. Edit LimitRanges, quotas or settings on the left.") : null,
    keptQuotas(overview.quotas, keep),
    namespaces.length > 0 ? keep(["limits", namespaces], () => limits(namespaces, overview.namespaces)) : null,
    overview.advice && keep(["advice", overview.advice], () => advice(overview.advice!)),
  ];
}

/** `cpu -1500m`, `memory +2Gi` */
const signed = ([name, change]: [string, string]) => `${name} ${change.startsWith("-") ? "" : "+"}${change}`;

/** What a container that sets nothing gets in each namespace, and the bounds that it must meet. */
function limits(some: Limits[], all: string[]): Node {
  const of = ({ namespace, story: { reasons = [], containers = [], inAll = [] } }: Limits) =>
    fold(
      namespace,
      all.length === 1,
      ...reasons.map((reason) => h("p", { class: "message" }, reason)),
      ...containers.map((one) => container(one, "A container that sets nothing")),
      ...(inAll.length > 0 ? [totals(inAll)] : []),
    );
  return h(
    "section",
    { id: "limits" },
    h("h2", {}, "Effective limits by namespace"),
    ...some.map(of),
    more(all, some.length),
  );
}

/** So many containers' resources are shown. */
const MOST_LINES = 400;

/** What containers used and should request; by the LimitRanges, quotas and settings of the snapshot, not by those in the panels. */
function advice({ lines, quotas, notes }: Advice): Node {
  return h(
    "section",
    { id: "advice" },
    h("h2", {}, "Workloads"),
    h("p", { class: "note" }, "Usage and advice as of the snapshot, before any change in the panels."),
    table("", ["Container", "Request", "Recommended", "Usage"], lines.slice(0, MOST_LINES).map(adviceLine)),
    more(lines, MOST_LINES),
    quotas.length > 0 && h("h2", {}, "Quotas if all advice was taken"),
    quotas.length > 0 && table("", ["Quota", "Used", "Change", "After", "Hard"], quotas.slice(0, MOST_ROWS).map(adviceEffect)),
    more(quotas),
    ...notes.map((note) => h("p", { class: "note" }, note)),
  );
}

function adviceLine({ namespace, object, container, resource, request, limit, recommended, change, usage, source, ...line }: AdviceLine): Node {
  const pods = line.pods === 1 ? "1 pod" : `${line.pods} pods`;
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, `${namespace}/${object} ${container}: ${resource}`, h("span", { class: "source" }, `${pods}; ${source}`)),
    h("td", { class: "amount" }, request?.text ?? "-", limit && h("span", { class: "source" }, `limit ${limit.text}`)),
    h("td", { class: "amount" }, recommended?.text ?? "unknown", change !== "-" && h("span", { class: "source" }, change)),
    h("td", { class: "bar-cell" }, usage.length > 0 && distribution({ request, recommended, usage })),
  );
}

/** Usage from its median to its p95, and on to its peak, beside the request now and the recommended one. */
function distribution({ request, recommended, usage }: Pick<AdviceLine, "request" | "recommended" | "usage">): Node {
  const at = (label: string) => usage.find((level) => level.at === label)?.value ?? 0;
  const most = Math.max(at("peak"), request?.value ?? 0, recommended?.value ?? 0) || 1;
  const mark = (name: string, from: number, to: number) => {
    const element = h("span", { class: name });
    element.style.left = `${(from / most) * 100}%`;
    element.style.width = `${((to - from) / most) * 100}%`;
    return element;
  };
  const line = (name: string, amount: { value: number } | null) => amount && mark(name, amount.value, amount.value);
  return h(
    "span",
    {},
    h("span", { class: "spread", "aria-hidden": "true" }, mark("rare", at("p95"), at("peak")), mark("usual", at("p50"), at("p95")), line("now", request), line("wanted", recommended)),
    h("span", { class: "source" }, usage.map((level) => `${level.at} ${level.text}`).join(", ")),
  );
}

function adviceEffect({ namespace, quota, resource, used, change, usedAfter, hard, fits }: AdviceEffect): Node {
  return h(
    "tr",
    { class: fits ? "" : "exceeded" },
    h("th", { scope: "row" }, `${namespace}/${quota}: ${resource}`),
    ...[used, change, usedAfter, hard].map((cell) => h("td", { class: "amount" }, cell)),
  );
}

function quotaEffect({ namespace, quota, name, used, remade, hard, newHard, left, newlyExceeded }: QuotaEffect): Node {
  return h(
    "tr",
    { class: newlyExceeded ? "exceeded" : "" },
    h("th", { scope: "row" }, `${namespace}/${quota}: ${name}`),
    ...[used, remade, hard, newHard, left].map((cell) => h("td", { class: "amount" }, cell ?? "-")),
  );
}

const TONES: Record<string, string> = { "newly refused": "rejected", "still refused": "rejected", "not judged": "error", changed: "changed" };

function effect({ object, namespace, running, change, reasons = [], values = [], warnings = [] }: Effect): Node {
  const rows = values.map(({ container, field, now, then, reason }) =>
    h("tr", {}, h("th", { scope: "row" }, `${container}: ${field}`), h("td", { class: "amount" }, now ?? "-"), h("td", { class: "amount" }, then ?? "-"), h("td", {}, reason)),
  );
  return h(
    "article",
    { class: `object ${TONES[change] ?? ""}`, "aria-label": `${namespace} ${object}: ${change}` },
    h("header", {}, h("span", { class: "verdict" }, change), h("h3", {}, object), h("span", { class: "namespace" }, `namespace ${namespace}, ${running} running`)),
    ...reasons.map((reason) => h("p", { class: "message" }, reason)),
    ...warnings.map((warning) => h("p", { class: "warning" }, h("strong", {}, "Warning: "), h("span", {}, warning))),
    rows.length > 0 && table("", ["Value", "Now", "Then", "Source"], rows),
  );
}

const slug = (text: string) => text.replaceAll(" ", "-");

/** What to show at the lines of the objects. */
export function marksOf(rows: Row[], details: Detail[]): Mark[] {
  const of = new Map(details.map((detail) => [detail.row, detail]));
  return rows.flatMap((row, index): Mark[] => {
    const detail = of.get(index);
    if (FAILED.includes(row.verdict)) {
      return [{ line: row.line, severity: "error", text: detail?.message || `${row.object}: ${row.verdict}` }];
    }
    const warnings = detail?.story.warnings ?? [];
    return warnings.map((text) => ({ line: row.line, severity: "warning", text }));
  });
}
