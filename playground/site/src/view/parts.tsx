// The components that every view uses. Text is set as text by Preact, which makes elements and never parses HTML: so names
// cannot become markup, and Trusted Types have nothing to allow.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { amount, inOneUnit, ofHard, share, withUnit } from "../amounts.js";
import { scaled } from "../drawing.js";
import type { Words } from "../explain.js";
import type { AdviceLine, Timeline } from "../types.js";

export const Logo = () => (
  <svg viewBox="0 0 32 32" aria-hidden="true">
    <rect width="32" height="32" rx="7" fill="#0969da" />
    <rect x="7" y="7" width="18" height="2.5" rx="1.25" fill="#f2c94c" />
    <rect x="7" y="15" width="18" height="10" rx="2" fill="#fff" />
  </svg>
);

export const Pill = ({ tone = "", children }: { tone?: string; children: ComponentChildren }) => (
  <span class={`pill ${tone}`}>{children}</span>
);

export const Said = ({ words }: { words: Words }) => (
  <>{words.map((word) => (typeof word === "string" ? word : <code>{word.code}</code>))}</>
);

/** The search of a list, which the key / goes to. */
export const Search = (list: { of: string; by: string; text: string; change: (text: string) => void }) => (
  <input
    type="search"
    id="search"
    aria-label={`Search ${list.of}`}
    aria-keyshortcuts="/"
    placeholder={`Search by ${list.by}  ( / )`}
    value={list.text}
    onInput={(event) => list.change(event.currentTarget.value)}
  />
);

/** What is between backticks is code. */
export const Ticked = ({ text }: { text: string }) => (
  <Said words={text.split("`").map((part, index) => (index % 2 ? { code: part } : part))} />
);

/** How full something is: what is used, and what is added to it. `isShare`: a part of a whole, which does no harm when it is large. */
export function Bar({
  used,
  after = used,
  hard,
  label,
  isShare = false,
}: {
  used: number;
  after?: number;
  hard: number;
  label?: string;
  isShare?: boolean;
}) {
  const percent = (value: number) =>
    hard > 0 ? Math.min(100, Math.max(0, (value / hard) * 100)) : value > 0 ? 100 : 0;
  const least = Math.min(used, after);
  const tone = isShare ? "" : after > hard ? "full" : after >= hard * 0.8 ? "nearly" : "";
  return (
    <span class="bar" {...(label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" })}>
      <span class={after === used ? tone : ""} style={{ width: `${percent(least)}%` }} />
      {after > used && <span class={`added ${tone}`} style={{ width: `${percent(after) - percent(least)}%` }} />}
    </span>
  );
}

interface Spreading extends Pick<AdviceLine, "resource" | "request" | "limit" | "recommended"> {
  usage: { at: string; value: number }[];
}

/**
 * Usage from its median to its p95, and on to its peak, with what is requested, limited and recommended. `isRequest`: what is
 * recommended is set as the request already.
 */
export function Spread({ line, isRequest = false }: { line: Spreading | undefined; isRequest?: boolean }) {
  if (!line || line.usage.length === 0) return <span class="muted">no usage data</span>;
  const at = (label: string) => line.usage.find((level) => level.at === label)?.value ?? 0;
  const peak = at("peak");
  // A history need not have every percentile.
  const usual = at("p95") || at("p90") || at("p80");
  const { most, lines } = scaled(line, peak);
  const x = (value: number) => 2 + (Math.min(value, most) / most) * 156;
  const isRaise = !isRequest && line.recommended && line.recommended.value > (line.request?.value ?? 0);
  const told = (of: string, value: number | undefined) =>
    value === undefined ? [] : [`${of} ${withUnit(line.resource, value)}`];
  const label = [
    ...line.usage.flatMap((level) => told(level.at, level.value)),
    ...told("request", line.request?.value),
    ...told("limit", line.limit?.value),
    ...told(isRequest ? "request" : "recommended", line.recommended?.value),
  ].join(", ");
  return (
    <svg
      class="spread"
      viewBox="0 0 160 24"
      preserveAspectRatio="none"
      role="img"
      aria-label={`${line.resource}: ${label}`}
    >
      <title>{label}</title>
      <line class="axis" x1="0" x2="160" y1="12" y2="12" />
      <line class="rare" x1={x(at("p50"))} x2={x(peak)} y1="12" y2="12" />
      <rect class="usual" x={x(at("p50"))} y="8" width={Math.max(2, x(usual) - x(at("p50")))} height="8" rx="2" />
      {lines.map(({ class: kind, value, isBeyond }) =>
        isBeyond ? (
          <path key={kind} class={`${kind} beyond`} d="M152 4l6 8l-6 8" />
        ) : (
          <line
            key={kind}
            class={`${kind} ${kind === "recommended" && isRaise ? "raise" : ""}`}
            x1={x(value)}
            x2={x(value)}
            y1="3"
            y2="21"
          />
        ),
      )}
    </svg>
  );
}

const Line = ({ stroke, dashes, name }: { stroke: string; dashes?: string; name: string }) => (
  <span>
    <svg width="6" height="14" aria-hidden="true">
      <line x1="3" x2="3" y1="0" y2="14" stroke={`var(--${stroke})`} stroke-width="3" stroke-dasharray={dashes} />
    </svg>
    {name}
  </span>
);

export const Legend = ({
  recommended = "recommended",
  course,
}: {
  recommended?: string;
  course?: Timeline | undefined;
}) => (
  <div class="legend">
    {course ? (
      <span>
        <svg width="32" height="14" aria-hidden="true">
          <path d="M0 14V9h32v5z" fill="var(--usage)" opacity="0.55" />
          <path d="M4 9V4M12 9V7M20 9V1M28 9V6" stroke="var(--usage-text)" stroke-width="1.5" />
        </svg>
        usual, and peak of each {course.step >= 86_400 ? "day" : "hour"}
      </span>
    ) : (
      <span>
        <svg width="32" height="12" aria-hidden="true">
          <line x1="2" x2="30" y1="6" y2="6" stroke="var(--usage)" stroke-width="2" />
          <rect x="6" y="2" width="12" height="8" rx="2" fill="var(--usage)" />
        </svg>
        usage p50 to p95, peak
      </span>
    )}
    {recommended === "recommended" && (
      <Line stroke="text" name={course ? "request, dotted above the scale" : "request"} />
    )}
    <Line stroke="good" name={recommended} />
    <Line stroke="muted" dashes="3 2" name="limit" />
    {course && course.kills.length > 0 && <Line stroke="bad-fill" name="OOM-killed" />}
    {course && course.releases.length > 0 && <Line stroke="text" dashes="2 2" name="new version" />}
  </div>
);

/**
 * `2.00 → 0.61`, `3,072 → 898 MiB`: the request as it is and should be, in one unit. The heading of a column says cores, unless the
 * amounts stand alone. What ought to be looked at before it is lowered is not green.
 */
export function Change({
  line,
  doubt = "",
  isAlone = false,
}: {
  line: AdviceLine | undefined;
  doubt?: string;
  isAlone?: boolean;
}) {
  if (!line) return <span class="muted">–</span>;
  const { request, recommended, typical, resource, usage } = line;
  const { numbers, unit } = inOneUnit(resource, [request?.value ?? 0, recommended?.value ?? request?.value ?? 0]);
  const [now, then] = [request ? numbers[0]! : "none", numbers[1]];
  const behind = unit === "" || (unit === "cores" && !isAlone) ? "" : ` ${unit}`;
  if (!recommended) {
    const why =
      usage.length > 0 ? "no advice" : typical ? `typical: ${amount(resource, typical.value)}` : "no usage data";
    return (
      <>
        {request ? now + behind : now} <small>{why}</small>
      </>
    );
  }
  if (then === now) return <>{now + behind}</>;
  const isMore = recommended.value > (request?.value ?? 0);
  return (
    <span class="change" title={isMore ? "" : doubt}>
      {now} <span class="arrow">→</span> <b class={isMore ? "more" : doubt === "" ? "less" : "doubt"}>{then}</b>
      {behind}
    </span>
  );
}

/** How full a quota is of one resource, what changes it, and what is left. */
export function Meter({
  name,
  resource,
  used,
  after = used,
  hard,
  note,
}: {
  name: ComponentChildren;
  resource: string;
  used: number;
  after?: number;
  hard: number;
  note?: string | undefined;
}) {
  const left =
    after > hard ? `${withUnit(resource, after - hard)} too much` : `${withUnit(resource, hard - after)} left`;
  return (
    <li class={after > hard ? "meter exceeded" : "meter"}>
      <span>{name}</span>
      <b>{ofHard(resource, used, hard, after)}</b>
      <Bar used={used} after={after} hard={hard} />
      <small>{share(after, hard)}</small>
      <small>
        {left}
        {note && ` · ${note}`}
      </small>
    </li>
  );
}

/** Namespace and name in one cell, with what kind of object it is below. */
export function Named({
  namespace,
  object,
  container,
  below,
}: {
  namespace: string;
  object: string;
  container: string;
  below?: ComponentChildren;
}) {
  const [kind, name] = object.split("/", 2) as [string, string | undefined];
  return (
    <>
      {namespace !== "" && <span class="muted">{namespace} / </span>}
      <b>{name ?? kind}</b>
      <small>
        {name ? kind : ""} · {container}
        {below}
      </small>
    </>
  );
}

/** So many rows of each list are shown; the views hold the rest. */
export const FEW = globalThis.matchMedia?.("(max-width: 45rem)").matches ? 4 : 8;

/** Unfolds a list of which the first rows are shown. */
export const More = ({ size, isWhole, set }: { size: number; isWhole: boolean; set: (isWhole: boolean) => void }) =>
  size > FEW ? (
    <button type="button" class="plain" aria-expanded={isWhole} onClick={() => set(!isWhole)}>
      {isWhole ? "Fewer" : `All ${size}`}
    </button>
  ) : null;

export const Section = ({
  title,
  note,
  more,
  children,
}: {
  title: string;
  note?: string;
  more?: ComponentChildren;
  children: ComponentChildren;
}) => (
  <section class="listed" aria-label={title}>
    <header>
      <h2>
        {title} {note && <small>{note}</small>}
      </h2>
      {more}
    </header>
    <div class="card table" tabIndex={0} role="group" aria-label={`${title}, table`}>
      {children}
    </div>
  </section>
);

/** With a capital, as the first word of a cell. */
export const sentence = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

export function ago(time: string | null): string {
  const minutes = (Date.now() - Date.parse(time ?? "")) / 60_000;
  if (!Number.isFinite(minutes)) return "–";
  return `${minutes < 90 ? `${Math.max(0, Math.round(minutes))} min` : minutes < 60 * 48 ? `${Math.round(minutes / 60)} h` : `${Math.round(minutes / 1440)} d`} ago`;
}

export function Fold({
  title,
  isOpen = false,
  children,
}: {
  title: string;
  isOpen?: boolean;
  children: ComponentChildren;
}) {
  const [isShown, setShown] = useState(isOpen);
  return (
    <details open={isShown} onToggle={(event) => setShown(event.currentTarget.open)}>
      <summary>{title}</summary>
      {isShown && children}
    </details>
  );
}

/** A table that scrolls by itself where it is wider than the page; columns from `numbers` on are numbers. `isStack`: on a phone a row is a card of its own. */
export const Table = ({
  caption = "",
  heads,
  numbers = Infinity,
  isStack = false,
  children,
}: {
  caption?: string;
  heads: string[];
  numbers?: number;
  isStack?: boolean;
  children: ComponentChildren;
}) => (
  <div class="table" tabIndex={0} role="group" aria-label={caption || `${heads[0]} table`}>
    <table class={isStack ? "stack" : ""}>
      {caption !== "" && <caption>{caption}</caption>}
      <thead>
        <tr>
          {heads.map((head, index) => (
            <th scope="col" class={index >= numbers ? "number" : ""}>
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  </div>
);

const MOMENT = /(\d{4})-(\d\d)-(\d\d)(?:T(\d\d:\d\d):\d\d(?:\.\d+)?Z)?/g;

/** Moments in a text as people write them: `14 Nov 2026, 11:20 UTC`. */
export const dated = (text: string) =>
  text.replaceAll(MOMENT, (_, year, month, day, time) => {
    const name = new Date(Date.UTC(2000, Number(month) - 1)).toLocaleDateString("en", {
      month: "short",
      timeZone: "UTC",
    });
    return `${Number(day)} ${name} ${year}${time ? `, ${time} UTC` : ""}`;
  });
