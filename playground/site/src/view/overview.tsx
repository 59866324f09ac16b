// What one opens every morning: what can be freed, what is at risk, what is nearly full or blocked, what is not covered.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { count, forecast, inWords, ofHard, share, withUnit } from "../amounts.js";
import type { Inspection, Quota, Workload } from "../inspect.js";
import { linkTo } from "../list.js";
import { isUnmeasured, marksOf, toneOf } from "../marks.js";
import type { Rejections } from "../types.js";
import { Bar, Change, FEW, More, Named, Pill, Section, ago, dated, sentence } from "./parts.js";
import { Resized } from "./resizes.js";
import { Stats } from "./stats.js";
import { To } from "./to.js";

const DAY = 86_400_000;

/** The worst marks of a container, and how many more it has. */
export function Marks({ workload, most = Infinity }: { workload: Workload; most?: number }) {
  const all = marksOf(workload);
  const rest = all.slice(most);
  return (
    <span class="pills">
      {all.slice(0, most).map(({ mark, label, title }) => (
        <span key={mark.name} class={`pill ${mark.tone}`} title={title}>
          {label}
        </span>
      ))}
      {rest.length > 0 && (
        <span class="pill" title={rest.map(({ title }) => title).join("; ")}>
          +{rest.length}
        </span>
      )}
    </span>
  );
}

function nearlyFull(quotas: Quota[]) {
  const all = quotas.flatMap((quota) => quota.amounts.map((of) => ({ quota, ...of })));
  return all
    .filter(({ used, hard }) => used >= hard * 0.8 && used > 0)
    .sort((a, b) => b.used / (b.hard || 1) - a.used / (a.hard || 1));
}

export function Overview({ inspection }: { inspection: Inspection }) {
  const { advice, workloads, quotas, rejections, unknown } = inspection;
  const risky = workloads.filter(({ risks }) => risks.length > 0).sort((a, b) => a.rank - b.rank);
  const savers = workloads.filter(({ saved }) => saved > 0).sort((a, b) => b.saved - a.saved);
  const full = nearlyFull(quotas);
  const stopped = (advice?.workloads ?? []).filter((of) => of.blocked !== undefined).length;
  return (
    <div class="view">
      <Stats inspection={inspection} risky={risky} />

      {workloads.length === 0 && unknown === "" && (
        <section class="card section empty">
          <h2>No workloads to size</h2>
          <p>No running workload was found. Quotas and “What if” work all the same.</p>
        </section>
      )}

      <div class="pair even">
        <div class="urgent">
          {risky.length > 0 && <FixFirst risky={risky} />}
          <Since inspection={inspection} />
        </div>
        {savers.length > 0 && <Savings savers={savers} isMoney={advice?.money !== undefined} />}
      </div>

      {advice?.blocked && advice.blocked.length > 0 && (
        <section class="listed" aria-label="Blocked recommendations">
          <header>
            <h2>
              Blocked recommendations <small>Left out of patches, because the API server would reject their Pods</small>
            </h2>
          </header>
          <ul class="card facts">
            {advice.blocked.slice(0, FEW).map((line) => (
              <li>{line}</li>
            ))}
            {stopped > FEW && (
              <li>
                <To hash="#workloads?only=would-be-blocked">All {stopped.toLocaleString("en")}</To>
              </li>
            )}
          </ul>
        </section>
      )}

      {rejections.groups.length > 0 && <Rejected rejections={rejections} />}

      {inspection.resizes && (
        <Resized
          resizes={inspection.resizes}
          known={new Map(workloads.map((of) => [`${of.namespace}/${of.object}`, of]))}
        />
      )}

      <div class="pair">
        {full.length > 0 && (
          <Section title="Quotas nearly full" note="80% and more" more={<To hash="#quotas">All quotas</To>}>
            <table class="stack levels">
              <thead>
                <tr>
                  <th scope="col">Quota</th>
                  <th scope="col" colSpan={2}>
                    <span class="hidden">Share</span>
                  </th>
                  <th scope="col" class="number">
                    Used
                  </th>
                  <th scope="col" class="number">
                    Trend
                  </th>
                </tr>
              </thead>
              <tbody>
                {full.slice(0, FEW).map(({ quota, resource, used, hard, perDay }) => (
                  <tr key={`${quota.namespace}/${quota.name}/${resource}`} class={used > hard ? "exceeded" : ""}>
                    <th scope="row">
                      <span class="muted">{quota.namespace || quota.kind} / </span>
                      <b>{quota.name}</b> <span class="muted">{resource}</span>
                    </th>
                    <td class="bar-cell">
                      <Bar used={used} hard={hard} />
                    </td>
                    <td class="number">{share(used, hard)}</td>
                    <td class="number" data-label="Used">
                      {ofHard(resource, used, hard)}
                    </td>
                    <td class="number" data-label="Trend">
                      {forecast({ used, hard, ...(perDay === undefined ? {} : { perDay }) })}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Section>
        )}
        <Coverage inspection={inspection} />
      </div>
    </div>
  );
}

function FixFirst({ risky }: { risky: Workload[] }) {
  return (
    <Section
      title="Fix first"
      note={count(risky.length, "container")}
      more={risky.length > FEW && <To hash="#workloads?only=risk">All {risky.length}</To>}
    >
      <table class="stack risks">
        <thead>
          <tr>
            <th scope="col">Workload</th>
            <th scope="col">Why, and what helps</th>
          </tr>
        </thead>
        <tbody>
          {risky.slice(0, FEW).map((workload) => (
            <tr key={workload.id}>
              <th scope="row">
                <To hash={linkTo(workload)}>
                  <Named {...workload} />
                </To>
              </th>
              <td>
                {workload.risks.slice(0, 2).map((risk) => (
                  <p>
                    <span class={`pill ${toneOf(risk)}`}>{sentence(inWords(risk.text))}</span>{" "}
                    {sentence(inWords(risk.fix))}
                  </p>
                ))}
                {workload.risks.length > 2 && <small>and {workload.risks.length - 2} more</small>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  );
}

function Savings({ savers, isMoney }: { savers: Workload[]; isMoney: boolean }) {
  return (
    <Section
      title="Largest savings"
      note={`${count(savers.length, "container")} request more than they need`}
      more={<To hash="#workloads">All workloads</To>}
    >
      <table class="savers stack">
        <thead>
          <tr>
            <th scope="col">Workload</th>
            <th scope="col" class="number">
              CPU, cores
            </th>
            <th scope="col" class="number">
              Memory
            </th>
            <th scope="col" class="number">
              {isMoney ? "Saves a month" : "Saves"}
            </th>
          </tr>
        </thead>
        <tbody>
          {savers.slice(0, FEW).map((workload) => (
            <tr key={workload.id}>
              <th scope="row">
                <To hash={linkTo(workload)}>
                  <Named {...workload} below={` · ${count(workload.pods, "pod")}`} />
                </To>
                {workload.doubt !== "" && <small class="doubt">{sentence(inWords(workload.doubt))}</small>}
              </th>
              <td class="number" data-label="CPU">
                <Change line={workload.cpu} doubt={workload.doubt} />
              </td>
              <td class="number" data-label="Memory">
                <Change line={workload.memory} doubt={workload.doubt} />
              </td>
              <td class="number" data-label="Saves">
                <Frees workload={workload} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  );
}

/** What is new in the last day: kills, what the API server rejects, and what was recommended and has happened. */
function Since({ inspection: { workloads, rejections, changes } }: { inspection: Inspection }) {
  const since = Date.now() - DAY;
  const all = (found: Workload[]) => (
    <>
      {found.slice(0, NAMED).map((workload, index) => (
        <>
          {index > 0 && ", "}
          <To hash={linkTo(workload)}>{`${workload.namespace} / ${workload.object.split("/")[1]}`}</To>
        </>
      ))}
      {found.length > NAMED && ` and ${found.length - NAMED} more`}
    </>
  );
  const killed = workloads.filter(({ course }) => course?.kills.some((at) => at * 1000 > since));
  const released = workloads.filter(({ course }) => course?.releases.some((at) => at * 1000 > since - DAY));
  const blocked = rejections.groups.filter(({ first, blocked }) => blocked > 0 && Date.parse(first ?? "") > since);
  const of = (changed: boolean) =>
    changes
      .filter(({ isAsRecommended }) => isAsRecommended === changed)
      .flatMap(({ id }) => workloads.find((workload) => workload.id === id) ?? []);
  const facts: [tone: string, label: string, what: ComponentChildren][] = [];
  if (killed.length > 0) facts.push(["bad", "OOM-killed", all(killed)]);
  if (blocked.length > 0)
    facts.push([
      "bad",
      "blocked",
      all(
        blocked.flatMap(
          (group) =>
            workloads.find(
              ({ namespace, object }) => namespace === group.namespace && group.workloads.includes(object),
            ) ?? [],
        ),
      ),
    ]);
  if (of(true).length > 0) facts.push(["good", "set as recommended", all(of(true))]);
  if (of(false).length > 0) facts.push(["", "requests changed", all(of(false))]);
  if (released.length > 0) facts.push(["", "new version", all(released)]);
  if (facts.length === 0) return null;
  return (
    <section class="listed" aria-label="Since yesterday">
      <header>
        <h2>Since yesterday</h2>
      </header>
      <ul class="card since">
        {facts.map(([tone, label, what]) => (
          <li>
            <span class={`pill ${tone}`}>{label}</span> {what}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Pods that the API server rejected, by reason. They come in an order in which no namespace stands before all others. */
function Rejected({ rejections: { groups, isCut } }: { rejections: Rejections }) {
  const [isWhole, setWhole] = useState(false);
  return (
    <Section
      title="Recent rejections"
      note="Pods that the API server did not create"
      more={<More size={groups.length} isWhole={isWhole} set={setWhole} />}
    >
      <table class="stack">
        <thead>
          <tr>
            <th scope="col">Workload</th>
            <th scope="col">Kubernetes says</th>
            <th scope="col" class="number">
              Times
            </th>
            <th scope="col" class="number">
              First
            </th>
            <th scope="col" class="number">
              Last
            </th>
          </tr>
        </thead>
        <tbody>
          {groups
            .slice(0, isWhole ? groups.length : FEW)
            .map(({ namespace, workloads, workloadCount, blocked, message, count: times, first, last }) => (
              <tr>
                <th scope="row">
                  <span class="muted">{namespace} / </span>
                  <b>{nameOf(workloads[0])}</b>
                  {blocked > 0 && (
                    <>
                      {" "}
                      <Pill tone="bad">
                        {workloadCount > 1 ? `${blocked.toLocaleString("en")} blocked now` : "blocked now"}
                      </Pill>
                    </>
                  )}
                  <small>
                    {kindOf(workloads[0])}
                    {workloadCount > 1 && `, and ${some(workloads.slice(1), workloadCount - 1)}`}
                  </small>
                </th>
                <td class="wrap">{message}</td>
                <td class="number" data-label="Times">
                  {times > 0 ? times.toLocaleString("en") : "–"}
                </td>
                <td class="number" data-label="First">
                  {ago(first)}
                </td>
                <td class="number" data-label="Last">
                  {blocked > 0 && times === 0 ? "now" : ago(last)}
                </td>
              </tr>
            ))}
        </tbody>
      </table>
      {isCut && <p class="muted">More were rejected than are listed here: each namespace has the same share.</p>}
    </Section>
  );
}

const kindOf = (workload = "") => workload.slice(0, Math.max(0, workload.indexOf("/")));
const nameOf = (workload = "") => workload.slice(workload.indexOf("/") + 1);

/** What is freed over all pods, and what that is a month; in red what is needed besides. */
export function Frees({ workload: { savedCpu, savedMemory, saved, money } }: { workload: Workload }) {
  const amounts = (
    [
      ["cpu", savedCpu],
      ["memory", savedMemory],
    ] as const
  )
    .filter(([, value]) => value !== 0)
    .map(([resource, value]) => (
      <span class={value > 0 ? "" : "more"}>
        {value < 0 && "+"}
        {withUnit(resource, Math.abs(value))}
      </span>
    ));
  if (amounts.length === 0) return <span class="muted">–</span>;
  if (money === undefined)
    return (
      <>
        {amounts.map((amount) => (
          <div>{amount}</div>
        ))}
      </>
    );
  return (
    <>
      <div class={`money ${saved < 0 ? "more" : ""}`}>{money}</div>
      <small>
        {amounts[0]}
        {amounts[1] && ", "}
        {amounts[1]}
      </small>
    </>
  );
}

/** So many names are listed. */
const NAMED = 3;

/** `search, ml and 4 more`, where there may be more than are named here. */
function some(names: string[], all = names.length): string {
  if (all <= NAMED + 1 && all === names.length) return names.join(", ");
  return `${names.slice(0, NAMED).join(", ")} and ${(all - NAMED).toLocaleString("en")} more`;
}

/** What the recommendations, LimitRanges and quotas do not reach. */
function Coverage({ inspection }: { inspection: Inspection }) {
  const { advice, workloads, unbounded, rejections, missed } = inspection;
  const brief = workloads.filter(({ tooBrief }) => tooBrief);
  const unmeasured = workloads.filter(isUnmeasured);
  const named = (of: Workload[]) =>
    some(of.map(({ namespace, object, container }) => `${namespace} ${object} ${container}`));
  const facts: ComponentChildren[] = missed.map((text) => (
    <>
      <b>Could not be read:</b> {text}
    </>
  ));
  if (rejections.problem !== null)
    facts.push(
      <>
        <b>Only what is blocked now is known of rejections:</b> {rejections.problem}
      </>,
    );
  if (unmeasured.length > 0)
    facts.push(
      <>
        <b>
          {unmeasured.length.toLocaleString("en")} of {count(workloads.length, "container")} without usage data:
        </b>{" "}
        <To hash="#workloads?only=unmeasured">{named(unmeasured)}</To>
      </>,
    );
  if (brief.length > 0)
    facts.push(
      <>
        <b>{count(brief.length, "container")} measured for less than two hours:</b> {named(brief)}
      </>,
    );
  // What could not be read is not missing.
  if (missed.length === 0) {
    if (unbounded.byQuota.length > 0)
      facts.push(
        <>
          <b>{count(unbounded.byQuota.length, "namespace")} without a quota:</b> {some(unbounded.byQuota)}
        </>,
      );
    if (unbounded.byLimitRange.length > 0)
      facts.push(
        <>
          <b>{count(unbounded.byLimitRange.length, "namespace")} without a LimitRange:</b>{" "}
          {some(unbounded.byLimitRange)}
        </>,
      );
  }
  facts.push(...(advice?.notes ?? []).slice(0, 5).map((note) => <>{dated(note)}</>));
  if (facts.length === 0)
    facts.push("Everything that runs has usage data, a LimitRange and a quota, and everything could be read.");
  return (
    <section class="listed" aria-label="Not covered, and notes">
      <header>
        <h2>Not covered, and notes</h2>
      </header>
      <ul class="card facts">
        {facts.map((fact) => (
          <li>{fact}</li>
        ))}
      </ul>
    </section>
  );
}
