// The components that every view uses. Text is set as text by Preact, which makes elements and never parses HTML: so names
// cannot become markup, and Trusted Types have nothing to allow.

import type { ComponentChildren } from "preact";
import { amount, inOneUnit, ofHard, share, withUnit } from "../amounts.js";
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

/** Usage from its median to its p95, and on to its peak, with what is requested, limited and recommended. */
/** `isRequest`: what is recommended is set as the request already. */
export function Spread({
  line,
  isRequest = false,
}: {
  line:
    | (Pick<AdviceLine, "resource" | "request" | "limit" | "recommended"> & { usage: { at: string; value: number }[] })
    | undefined;
  isRequest?: boolean;
}) {
  if (!line || line.usage.length === 0) return <span class="muted">no usage data</span>;
  const at = (label: string) => line.usage.find((level) => level.at === label)?.value ?? 0;
  const peak = at("peak");
  // A history need not have every percentile.
  const usual = at("p95") || at("p90") || at("p80");
  const marks = [line.request, line.recommended].flatMap((mark) => (mark ? [mark.value] : []));
  const inner = Math.max(peak, ...marks);
  // A limit far above everything else would press the rest into a corner.
  const limit = line.limit && line.limit.value <= inner * 3 ? line.limit.value : undefined;
  const most = Math.max(inner, limit ?? 0) || 1;
  const x = (value: number) => 2 + (value / most) * 156;
  const isRaise = !isRequest && line.recommended && line.recommended.value > (line.request?.value ?? 0);
  const told = [
    ...line.usage.map((level) => `${level.at} ${withUnit(line.resource, level.value)}`),
    line.request && `request ${withUnit(line.resource, line.request.value)}`,
    line.limit && `limit ${withUnit(line.resource, line.limit.value)}`,
    line.recommended && `${isRequest ? "request" : "recommended"} ${withUnit(line.resource, line.recommended.value)}`,
  ];
  const label = told.filter(Boolean).join(", ");
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
      {limit !== undefined && <line class="limit" x1={x(limit)} x2={x(limit)} y1="2" y2="22" />}
      {line.request && <line class="request" x1={x(line.request.value)} x2={x(line.request.value)} y1="3" y2="21" />}
      {line.recommended && (
        <line
          class={`recommended ${isRaise ? "raise" : ""}`}
          x1={x(line.recommended.value)}
          x2={x(line.recommended.value)}
          y1="3"
          y2="21"
        />
      )}
    </svg>
  );
}

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
        <svg width="32" height="12" aria-hidden="true">
          <path d="M0 12V7h8V3h8v6h8V5h8v7z" fill="var(--usage)" opacity="0.55" />
        </svg>
        peak of each {course.step >= 86_400 ? "day" : "hour"}
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
      <span>
        <svg width="6" height="14" aria-hidden="true">
          <line x1="3" x2="3" y1="0" y2="14" stroke="var(--text)" stroke-width="3" />
        </svg>
        request
      </span>
    )}
    <span>
      <svg width="6" height="14" aria-hidden="true">
        <line x1="3" x2="3" y1="0" y2="14" stroke="var(--good)" stroke-width="3" />
      </svg>
      {recommended}
    </span>
    <span>
      <svg width="6" height="14" aria-hidden="true">
        <line x1="3" x2="3" y1="0" y2="14" stroke="var(--muted)" stroke-width="2" stroke-dasharray="3 2" />
      </svg>
      limit
    </span>
    {course && course.kills.length > 0 && (
      <span>
        <svg width="6" height="14" aria-hidden="true">
          <line x1="3" x2="3" y1="0" y2="14" stroke="var(--bad-fill)" stroke-width="3" />
        </svg>
        OOM-killed
      </span>
    )}
    {course && course.releases.length > 0 && (
      <span>
        <svg width="6" height="14" aria-hidden="true">
          <line x1="3" x2="3" y1="0" y2="14" stroke="var(--text)" stroke-width="2" stroke-dasharray="2 2" />
        </svg>
        new version
      </span>
    )}
  </div>
);

/** `2.00 → 0.61`, `3,072 → 898 MiB`: the request as it is and should be, in one unit. The heading of a column says cores. */
export function Change({ line }: { line: AdviceLine | undefined }) {
  if (!line) return <span class="muted">–</span>;
  const { request, recommended, typical, resource } = line;
  if (!recommended)
    return (
      <>
        {request ? amount(resource, request.value) : "none"}
        <small>{typical ? `typical: ${amount(resource, typical.value)}` : "no usage data"}</small>
      </>
    );
  const { numbers, unit } = inOneUnit(resource, [request?.value ?? 0, recommended.value]);
  const [now, then] = [request ? numbers[0] : "none", numbers[1]];
  const behind = unit === "cores" ? "" : ` ${unit}`;
  if (then === now) return <>{now + behind}</>;
  const isMore = recommended.value > (request?.value ?? 0);
  return (
    <span class="change">
      {now} <span class="arrow">→</span> <b class={isMore ? "more" : "less"}>{then}</b>
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

/** Makes a link to a view of the page. */
export type Linking = (hash: string, text: ComponentChildren) => ComponentChildren;

/** So many rows of each list are shown; the views hold the rest. */
export const FEW = 8;

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
