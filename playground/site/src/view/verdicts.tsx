// What becomes of each object: the verdict, why, and what helps.

import type { VNode } from "preact";
import { useRef } from "preact/hooks";
import { count, inOneUnit, thousandths } from "../amounts.js";
import { PAGE } from "../engine.js";
import { type Place, download, goTo, mend, place as placeOf, turnTo } from "../evaluation.js";
import { type Finding, VERDICTS, chargesOf, findings, isFailure } from "../explain.js";
import { LABELS } from "../panels.js";
import type {
  CheckedBound,
  ContainerValues,
  Detail,
  Measured,
  ObjectCharge,
  Outcome,
  Part,
  Problem,
  QuotaChange,
  Row,
  Verdict,
} from "../types.js";
import { Fold, Legend, Meter, Pill, Said, Spread, Table, Ticked } from "./parts.js";

/** `3 objects: 1 rejected, 1 changed, 1 admitted` */
export const summary = (outcome: Outcome): string => {
  const counts = counted(outcome).map(({ label, number }) => `${number} ${label.toLowerCase()}`);
  return counts.length === 0 ? "No objects" : `${count(outcome.rows.length, "object")}: ${counts.join(", ")}`;
};

function counted({ rows }: Outcome) {
  const counts = new Map<Verdict, number>();
  for (const { verdict } of rows) counts.set(verdict, (counts.get(verdict) ?? 0) + 1);
  const verdicts = Object.keys(VERDICTS) as Verdict[];
  return verdicts.flatMap((verdict) =>
    counts.has(verdict) ? [{ ...VERDICTS[verdict], number: counts.get(verdict)! }] : [],
  );
}

export const Counters = ({ outcome, milliseconds }: { outcome: Outcome; milliseconds: number }) => (
  <>
    <span class="hidden">{summary(outcome)}. </span>
    {counted(outcome).map(({ label, tone, number }) => (
      <span key={label} class="card counter" aria-hidden="true" title={`Evaluated in ${milliseconds.toFixed(1)} ms`}>
        <b class={`tone-${tone}`}>{number.toLocaleString("en")}</b> {label.toLowerCase()}
      </span>
    ))}
  </>
);

export function Results({ outcome, from }: { outcome: Outcome; from: number }) {
  const { rows, details, problems, quotas } = outcome;
  const next = rows.findIndex((row, index) => index >= from + PAGE && isFailure(row.verdict));
  // At most keys all cards but one are what they were, and what was made before need not be compared with the page.
  const before = useRef(new Map<string, VNode>());
  const now = new Map<string, VNode>();
  const cards = details.map((detail) => {
    const row = rows[detail.row];
    if (!row) return undefined;
    const found = isFailure(row.verdict) ? findings(detail) : [];
    const placed = found.map((finding): [Finding, Place | undefined] => [finding, placeOf(row, finding)]);
    const isOfInput = row.verdict === "error" && problems.length > 0;
    const shown = JSON.stringify([row, detail, placed, isOfInput]);
    const card = before.current.get(shown) ?? (
      <ObjectCard
        key={`${detail.row} ${row.object}`}
        row={row}
        detail={detail}
        findings={placed}
        isOfInput={isOfInput}
      />
    );
    now.set(shown, card);
    return card;
  });
  before.current = now;
  return (
    <>
      <Problems problems={problems} />
      {rows.length > PAGE && <Pages from={from} size={PAGE} all={rows.length} further={["Next failure", next]} />}
      {cards}
      <Quotas levels={quotas} note="before and after these objects" />
    </>
  );
}

export function Problems({ problems }: { problems: Problem[] }) {
  if (problems.length === 0) return null;
  const order = Object.keys(LABELS);
  const sorted = [...problems].sort((a, b) => order.indexOf(a.panel) - order.indexOf(b.panel) || a.line - b.line);
  return (
    <section class="card problems" aria-label="Problems in the panels">
      <h2>{count(problems.length, "problem")} in the input</h2>
      <ul>
        {sorted.slice(0, 100).map(({ panel, line, text }) => (
          <li>
            <button type="button" class="plain place" onClick={() => goTo(panel, line)}>
              {LABELS[panel]}, line {line}
            </button>{" "}
            <Ticked text={text} />
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Buttons to turn pages of so many of all. */
export function Pages({
  from,
  size,
  all,
  further,
}: {
  from: number;
  size: number;
  all: number;
  further?: [label: string, row: number];
}) {
  const to = Math.min(from + size, all);
  const turn = (label: string, row: number) => (
    <button type="button" aria-disabled={row < 0} onClick={() => row >= 0 && turnTo(row)}>
      {label}
    </button>
  );
  return (
    <nav class="pages" aria-label="Pages of objects">
      {turn("Previous", from > 0 ? Math.max(0, from - size) : -1)}
      <span>
        {from + 1} to {to} of {all.toLocaleString("en")}
      </span>
      {turn("Next", to < all ? to : -1)}
      {further && turn(...further)}
    </nav>
  );
}

/** `isOfInput`: why there is no verdict is said above, once for all. */
function ObjectCard({
  row,
  detail,
  findings,
  isOfInput,
}: {
  row: Row;
  detail: Detail;
  findings: [Finding, Place | undefined][];
  isOfInput: boolean;
}) {
  const { message, story, diff, podDiff, note } = detail;
  const charges = chargesOf(story);
  const { label, tone } = VERDICTS[row.verdict];
  const isWrong = isFailure(row.verdict);
  return (
    <article
      class={`card object tone-${tone}`}
      data-object={row.object}
      data-verdict={row.verdict}
      aria-label={`${row.object}: ${label}`}
    >
      <header>
        <span class={`pill verdict ${tone}`}>{label}</span>
        <h3>{row.object}</h3>
        {row.namespace !== "" && <span class="muted">namespace {row.namespace}</span>}
        {row.isUpdate && <Pill>update</Pill>}
        <button type="button" class="plain place" onClick={() => goTo("objects", row.line)}>
          line {row.line}
        </button>
      </header>
      {isOfInput && <p class="muted">Not evaluated: fix the problems above first.</p>}
      {findings.map(([finding, place]) => (
        <Why finding={finding} place={place} mend={() => mend(row, finding)} tone={tone} />
      ))}
      {findings.length === 0 &&
        isWrong &&
        !isOfInput &&
        story.reasons?.map(({ message }) => (
          <div class={`why ${tone}`}>
            <p>{message}</p>
          </div>
        ))}
      {message !== "" && !isOfInput && <p class="message">{message}</p>}
      {tone === "info" && <Filled containers={story.containers ?? []} />}
      {story.warnings?.map(({ message }) => (
        <p class="why warn warning">
          <b>Warning </b>
          <span>{message}</span>
        </p>
      ))}
      {story.estimates?.map((estimate) => (
        <p class="why info estimate">
          <b>Estimate </b>
          {estimate}
        </p>
      ))}
      {note !== null && (
        <p class="muted">
          <Ticked text={note} />
        </p>
      )}
      <div class="folds">
        {message !== "" && isOfInput && (
          <Fold title="What the policy answers">
            <p class="message">{message}</p>
          </Fold>
        )}
        {!isOfInput && (
          <Fold title={isWrong && tone === "bad" ? "What would be stored" : "Object after admission"}>
            <Difference parts={diff} label={`${row.object} after admission`} />
          </Fold>
        )}
        {podDiff !== null && (
          <Fold title="Resulting Pod">
            <Difference parts={podDiff} label={`A Pod of ${row.object}`} />
          </Fold>
        )}
        {story.containers !== undefined && (
          <Fold title={story.isOfPods ? "Values of each Pod" : "Values"}>
            {story.containers.map((one) => (
              <Values container={one} />
            ))}
          </Fold>
        )}
        {story.inAll !== undefined && (
          <Fold title={story.containers === undefined ? "Bounds of the claim" : "Bounds of the Pod total"}>
            <Totals checks={story.inAll} />
          </Fold>
        )}
        {charges.length > 0 && (
          <Fold title="Quota usage">
            <QuotaUsage charges={charges} />
          </Fold>
        )}
        <button
          type="button"
          class="plain report"
          aria-label="Download for a bug report"
          onClick={() => download(detail.row)}
        >
          Bug report
        </button>
      </div>
    </article>
  );
}

const Why = ({
  finding: { headline, words, fix },
  place,
  mend,
  tone,
}: {
  finding: Finding;
  place: Place | undefined;
  mend: () => void;
  tone: string;
}) => (
  <div class={`why ${tone}`}>
    <p>
      <b>{headline}:</b> <Said words={words} />
    </p>
    {fix && (
      <p class="fix">
        <span>
          <Said words={fix.words} />
          {place && ` Line ${place.line}.`}
        </span>
        {place?.canBeMended && (
          <button type="button" onClick={mend}>
            Set to {fix.to}
          </button>
        )}
      </p>
    )}
  </div>
);

/** The values that admission sets, each with its source. */
function Filled({ containers }: { containers: ContainerValues[] }) {
  const rows = containers.flatMap(({ name, values }) =>
    values
      .filter(({ step }) => !["authored", "copied", "unset"].includes(step))
      .map((field) => ({
        name,
        limit: values.find((other) => other.field === field.field.replace("requests.", "limits."))?.value,
        ...field,
      })),
  );
  if (rows.length === 0) return null;
  const isOne = new Set(rows.map(({ name }) => name)).size === 1;
  return (
    <>
      <ul class="filled">
        {rows.map(({ name, field, value, reason, usage, limit }) => (
          <li>
            <code>
              {isOne ? "" : `${name} `}
              {field}
            </code>{" "}
            <span class="arrow">→</span> <b>{value ?? "unset"}</b> <span class="muted">{reason}</span>
            {usage && <Drawn resource={field.replace("requests.", "")} usage={usage} request={value} limit={limit} />}
          </li>
        ))}
      </ul>
      {rows.some(({ usage }) => usage) && <Legend recommended="request" />}
    </>
  );
}

/** The usage that a request was estimated from. */
function Drawn({
  resource,
  usage,
  request,
  limit,
}: {
  resource: string;
  usage: Measured[];
  request: string | undefined;
  limit: string | undefined;
}) {
  const levels = usage.map(({ at, amount }) => ({ at, value: thousandths(amount) ?? 0 }));
  const shown = levels.filter(({ at }) => levels.length <= 4 || ["p50", "p95", "peak"].includes(at));
  const { numbers, unit } = inOneUnit(
    resource,
    shown.map(({ value }) => value),
  );
  const mark = (text: string | undefined) => (text === undefined ? null : { text, value: thousandths(text) ?? 0 });
  return (
    <div class="drawn">
      <Spread
        line={{ resource, usage: levels, request: null, limit: mark(limit), recommended: mark(request) }}
        isRequest
      />
      <span class="muted">
        {shown.map(({ at }, index) => `${at}\u00a0${numbers[index]}`).join(" · ")}
        {`\u00a0${unit}`}
      </span>
    </div>
  );
}

/** What is folded away is made when it is unfolded: most of it never is, and a key waits for all that is made. */
const SIGNS = { same: " ", removed: "-", added: "+" } as const;
/** Lines of context around a change. */
const CONTEXT = 3;

function Difference({ parts, label }: { parts: Part[]; label: string }) {
  const isChanged = parts.some((part) => part.mark !== "same");
  return (
    <pre class="difference" tabIndex={0} role="group" aria-label={label}>
      {parts.map(({ mark, text }, index) => {
        const lines = text.replace(/\n$/, "").split("\n");
        const shown = (some: string[]) => some.map((line) => `${SIGNS[mark]} ${line}\n`).join("");
        if (mark === "added") return <ins>{shown(lines)}</ins>;
        if (mark === "removed") return <del>{shown(lines)}</del>;
        const head = index === 0 ? 0 : CONTEXT;
        const tail = index === parts.length - 1 ? 0 : CONTEXT;
        if (!isChanged || lines.length <= head + tail + 2) return shown(lines);
        return (
          <>
            {shown(lines.slice(0, head))}
            <span class="muted">{`  … ${count(lines.length - head - tail, "unchanged line")}\n`}</span>
            {shown(tail > 0 ? lines.slice(-tail) : [])}
          </>
        );
      })}
    </pre>
  );
}

export const Values = ({
  container: { name, role, image, values },
  caption = `${role} ${name}, image ${image}`,
}: {
  container: ContainerValues;
  caption?: string;
}) => (
  <Table caption={caption} heads={["Field", "Value", "Source", "Bounds"]}>
    {values.map(({ field, value, step, reason, checks = [] }) => (
      <tr class={step === "unset" ? "unset" : ""}>
        <th scope="row">
          <code>{field}</code>
        </th>
        <td>{value ?? "–"}</td>
        <td>{step === "unset" ? "not set" : reason}</td>
        <td>
          {checks.map((check) => (
            <Bound check={check} />
          ))}
        </td>
      </tr>
    ))}
  </Table>
);

/** `max 1 met (LimitRange limits)` */
const Bound = ({ check: { edge, bound, range, holds } }: { check: CheckedBound }) => (
  <span class={holds ? "less" : "more"}>
    {edge} {bound} {holds ? "met" : "not met"} ({range}){" "}
  </span>
);

export const Totals = ({ checks }: { checks: CheckedBound[] }) => (
  <Table heads={["Resource", "Request", "Limit", "Bounds"]}>
    {checks.map((check) => (
      <tr>
        <th scope="row">{check.resource}</th>
        <td>{check.request ?? "–"}</td>
        <td>{check.limit ?? "–"}</td>
        <td>
          <Bound check={check} />
        </td>
      </tr>
    ))}
  </Table>
);

const QuotaUsage = ({ charges }: { charges: ObjectCharge[] }) => (
  <Table heads={["Quota", "Used", "Change", "After", "Hard", "Available"]} numbers={1}>
    {charges.flatMap(({ quota, added: amounts }) =>
      amounts.map(({ name, before, added, used, hard, left }) => (
        <tr class={left.startsWith("-") ? "exceeded" : ""}>
          <th scope="row">
            {quota}: {name}
          </th>
          {[before, added, used, hard, left].map((cell) => (
            <td class="number">{cell}</td>
          ))}
        </tr>
      )),
    )}
  </Table>
);

/** So many rows of a table are shown. */
const MOST_ROWS = 200;

export function Quotas({ levels, note }: { levels: QuotaChange[]; note: string }) {
  if (levels.length === 0) return null;
  const namespaces = new Set(levels.map((level) => level.namespace)).size;
  return (
    <section class="card section">
      <h2>
        Quotas <small>{note}</small>
      </h2>
      <ul class="meters side">
        {levels.slice(0, MOST_ROWS).map(({ namespace, quota, resource: name, before, used: after, hard }) => {
          const [was, is, most] = [before, after, hard].map((text) => thousandths(text) ?? 0) as [
            number,
            number,
            number,
          ];
          const of = `${namespaces > 1 && namespace ? `${namespace} / ` : ""}${quota}`;
          return (
            <Meter
              key={`${namespace}/${quota}/${name}`}
              name={
                <>
                  <span class="muted">{of}</span> {name}
                </>
              }
              resource={name}
              used={was}
              after={is}
              hard={most}
            />
          );
        })}
      </ul>
      {levels.length > MOST_ROWS && <p class="muted">{levels.length - MOST_ROWS} more are not shown.</p>}
    </section>
  );
}
