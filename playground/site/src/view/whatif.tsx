// What other LimitRanges, quotas and settings would do to everything that runs: the changes first, then the state they leave.

import { useEffect, useMemo } from "preact/hooks";
import { count, inOneUnit, thousandths } from "../amounts.js";
import { type EffectGroup, grouped } from "../effects.js";
import { engine } from "../engine.js";
import { EFFECTS, loadCluster } from "../evaluation.js";
import { TRIED } from "../panels.js";
import { objectsOf } from "../reading.js";
import { type Cluster, change, state } from "../state.js";
import type { Advice, AdviceEffect, Effect, Limits, Overview, Panels, QuotaEffect, Trial } from "../types.js";
import { Columns } from "./columns.js";
import { Fold, Table } from "./parts.js";
import { Pages, Problems, Quotas, Totals, Values } from "./verdicts.js";

export function WhatIf() {
  const { cluster, failure, trial, milliseconds, from } = state;
  useEffect(() => void (cluster && openInEngine(cluster)), [cluster]);
  return (
    <Columns panels={TRIED} ready={cluster?.opened !== undefined || failure !== undefined}>
      <div id="status" class="counters" role="status">
        {failure ? (
          <p class="problems card">The preview failed: {failure}</p>
        ) : trial ? (
          <TrialCounters trial={trial} milliseconds={milliseconds} />
        ) : (
          <p class="loading">Evaluating everything that runs…</p>
        )}
      </div>
      <div id="results">
        {trial && cluster?.opened && (
          <TrialResults
            trial={trial}
            overview={cluster.opened.overview}
            advice={cluster.inspection.advice}
            from={from}
          />
        )}
      </div>
    </Columns>
  );
}

/** The clusters that the engine was given. */
const given = new WeakSet<Cluster>();

/** Gives a cluster to the engine, once, and its objects to the panels. */
async function openInEngine(cluster: Cluster) {
  if (given.has(cluster)) return;
  given.add(cluster);
  state.failure = undefined;
  try {
    const { result: overview } = await engine.open(await objectsOf(cluster));
    if (state.cluster !== cluster) return;
    const loaded: Panels = {
      limitRanges: overview.limitRanges,
      quotas: overview.quotaManifests,
      settings: overview.settings,
    };
    const before = cluster.opened?.loaded;
    cluster.opened = { overview, loaded };
    loadCluster(loaded, before);
  } catch (error) {
    given.delete(cluster);
    if (state.cluster === cluster) change({ failure: (error as Error).message });
  }
}

/** So many objects of a group are listed. */
const LISTED = 500;

const WORDS = {
  newlyRejected: { label: "newly rejected", tone: "bad" },
  notEvaluated: { label: "not evaluated", tone: "bad" },
  changed: { label: "changed", tone: "info" },
  noLongerRejected: { label: "no longer rejected", tone: "good" },
  stillRejected: { label: "still rejected", tone: "bad" },
  same: { label: "the same", tone: "" },
} as const;

/** `500 workloads and pods: 10 newly rejected, 490 the same` */
export function trialSummary({ report: { summary } }: Trial): string {
  const told = counts(summary).map(({ number, label }) => `${number} ${label}`);
  return `${count(summary.objects, "workload")} and pods: ${told.join(", ")}`;
}

function counts(summary: Trial["report"]["summary"]) {
  const all = (Object.keys(WORDS) as (keyof typeof WORDS)[])
    .map((name) => ({ number: summary[name], ...WORDS[name] }))
    .filter(({ number }) => number > 0);
  const exceeded = summary.quotasNewlyExceeded;
  return exceeded > 0
    ? [
        ...all,
        {
          number: exceeded,
          label: exceeded === 1 ? "quota bound newly exceeded" : "quota bounds newly exceeded",
          tone: "bad" as const,
        },
      ]
    : all;
}

export const TrialCounters = ({ trial, milliseconds }: { trial: Trial; milliseconds: number }) => (
  <>
    <span class="hidden">{trialSummary(trial)}. </span>
    {counts(trial.report.summary).map(({ number, label, tone }) => (
      <span key={label} class="card counter" aria-hidden="true" title={`Evaluated in ${milliseconds.toFixed(0)} ms`}>
        <b class={`tone-${tone}`}>{number.toLocaleString("en")}</b> {label}
      </span>
    ))}
  </>
);

export function TrialResults({
  trial,
  overview,
  advice,
  from,
}: {
  trial: Trial;
  overview: Overview;
  advice: Advice | null;
  from: number;
}) {
  const { report, namespaces, problems } = trial;
  const { objects, quotas: bounds, requests, notLookedAt = [] } = report;
  const groups = useMemo(() => grouped(objects), [objects]);
  return (
    <>
      <Problems problems={problems} />
      {objects.length === 0 && bounds.length === 0 && (
        <section class="card section empty">
          <h2>No changes yet</h2>
          <p>
            Edit LimitRanges, quotas, namespaces or settings to preview the effect on everything that runs. Objects
            without a namespace apply to every namespace.
            {overview.settings === "" && " The snapshot names no policy settings, so the defaults are used."}
          </p>
        </section>
      )}
      {requests && (
        <p class="muted">
          Requests of the changed objects:{" "}
          {Object.entries(requests)
            .map(([name, change]) => `${name} ${change.startsWith("-") ? "" : "+"}${change}`)
            .join(", ")}
          .
        </p>
      )}
      {groups.length > EFFECTS && <Pages from={from} size={EFFECTS} all={groups.length} />}
      {groups.slice(from, from + EFFECTS).map((group) => (
        <GroupCard key={`${group.change} ${group.effects[0].namespace}/${group.effects[0].object}`} group={group} />
      ))}
      {bounds.length > 0 && (
        <section class="card section">
          <h2>Quotas after recreating everything</h2>
          <Table heads={["Quota", ...REMADE]} numbers={1} isStack>
            {bounds.slice(0, 1000).map((bound) => (
              <BoundRow bound={bound} />
            ))}
          </Table>
        </section>
      )}
      {notLookedAt.length > 0 && (
        <section class="card section">
          <h2>Not evaluated</h2>
          <ul>
            {notLookedAt.map((text) => (
              <li>{text}</li>
            ))}
          </ul>
        </section>
      )}
      <Quotas levels={overview.quotas} note="as they are now" />
      {advice && advice.quotas.length > 0 && (
        <section class="card section">
          <h2>Quotas after applying all recommendations</h2>
          <Table heads={["Quota", ...ADVISED]} numbers={1} isStack>
            {advice.quotas.slice(0, 1000).map((effect) => (
              <AdviceRow effect={effect} />
            ))}
          </Table>
        </section>
      )}
      {namespaces.length > 0 && <EffectiveLimits limits={namespaces} all={overview.namespaces} />}
    </>
  );
}

const TONES: Record<string, string> = {
  "newly rejected": "bad",
  "still rejected": "bad",
  "not evaluated": "bad",
  changed: "info",
  "no longer rejected": "good",
};

/** One object, or several to which the same happens for the same reason. */
function GroupCard({ group: { change, effects, namespaces, running, isSame } }: { group: EffectGroup }) {
  const [first] = effects;
  const isOne = effects.length === 1;
  const title = isOne ? first.object : count(effects.length, "workload");
  const where = namespaces.length === 1 ? `namespace ${namespaces[0]}` : count(namespaces.length, "namespace");
  return (
    <article
      class={`card object tone-${TONES[change] ?? ""}`}
      aria-label={`${isOne ? `${first.namespace} ` : ""}${title}: ${change}`}
    >
      <header>
        <span class={`pill verdict ${TONES[change] ?? ""}`}>{change}</span>
        <h3>{title}</h3>
        <span class="muted">
          {where}
          {running > 0 && `, ${running.toLocaleString("en")} running`}
        </span>
      </header>
      {!isSame && (
        <p class="muted">
          For example {first.namespace} / {first.object}; names and amounts differ:
        </p>
      )}
      <Told effect={first} />
      {!isOne && (
        <Fold title={`All ${effects.length.toLocaleString("en")}`}>
          <Table heads={["Workload", ...(isSame ? [] : ["Why"]), "Running"]}>
            {effects.slice(0, LISTED).map((effect) => (
              <tr>
                <th scope="row">
                  <span class="muted">{effect.namespace} / </span>
                  {effect.object}
                </th>
                {!isSame && (
                  <td>
                    <Told effect={effect} />
                  </td>
                )}
                <td class="number">{effect.running.toLocaleString("en")}</td>
              </tr>
            ))}
          </Table>
          {effects.length > LISTED && (
            <p class="muted">{(effects.length - LISTED).toLocaleString("en")} more are not listed.</p>
          )}
        </Fold>
      )}
    </article>
  );
}

const Told = ({ effect: { reasons = [], values = [], warnings = [] } }: { effect: Effect }) => (
  <>
    {reasons.map((reason) => (
      <p class="message">{reason}</p>
    ))}
    {warnings.map((warning) => (
      <p class="why warn warning">
        <b>Warning </b>
        <span>{warning}</span>
      </p>
    ))}
    {values.length > 0 && (
      <ul class="filled">
        {values.map(({ container, field, now, then, reason }) => (
          <li>
            {container} <code>{field}</code> {now ?? "not set"} <span class="arrow">→</span> <b>{then ?? "not set"}</b>{" "}
            <span class="muted">{reason}</span>
          </li>
        ))}
      </ul>
    )}
  </>
);

/** What a container that sets nothing gets in each namespace, and the bounds that it must meet. */
const EffectiveLimits = ({ limits, all }: { limits: Limits[]; all: string[] }) => (
  <section class="card section" id="limits">
    <h2>Defaults for a container without resources</h2>
    {limits.map(({ namespace, story: { reasons = [], containers = [], inAll = [] } }) => (
      <Fold key={namespace} title={namespace} isOpen={all.length === 1}>
        {reasons.map(({ message }) => (
          <p class="message">{message}</p>
        ))}
        {containers.map((one) => (
          <Values container={one} caption="A container that sets nothing" />
        ))}
        {inAll.length > 0 && <Totals checks={inAll} />}
      </Fold>
    ))}
    {all.length > limits.length && <p class="muted">{all.length - limits.length} more namespaces are not shown.</p>}
  </section>
);

const ADVISED = ["Used", "Change", "After", "Hard"];
const REMADE = ["Used", "After recreate", "Hard", "New hard", "Available"];

const AdviceRow = ({
  effect: { namespace, quota, resource, used, change, usedAfter, hard, fits },
}: {
  effect: AdviceEffect;
}) => (
  <Amounts
    of={`${namespace}/${quota}`}
    resource={resource}
    heads={ADVISED}
    cells={[used, change, usedAfter, hard]}
    isExceeded={!fits}
  />
);

const BoundRow = ({
  bound: { namespace, quota, resource, used, remade, hard, newHard, left, newlyExceeded },
}: {
  bound: QuotaEffect;
}) => (
  <Amounts
    of={`${namespace && `${namespace}/`}${quota}`}
    resource={resource}
    heads={REMADE}
    cells={[used, remade, hard, newHard, left]}
    isExceeded={newlyExceeded}
  />
);

/** A row of amounts of a quota in one unit, which stands behind the name of the resource. */
function Amounts({
  of,
  resource,
  heads,
  cells,
  isExceeded,
}: {
  of: string;
  resource: string;
  heads: string[];
  cells: (string | null)[];
  isExceeded: boolean;
}) {
  const values = cells.map((cell) => (cell === null ? undefined : thousandths(cell)));
  const { numbers, unit } = inOneUnit(
    resource,
    values.map((value) => value ?? 0),
  );
  return (
    <tr class={isExceeded ? "exceeded" : ""}>
      <th scope="row">
        {of}: {resource}
        {unit !== "" && `, ${unit}`}
      </th>
      {numbers.map((number, index) => (
        <td class="number" data-label={heads[index]}>
          {values[index] === undefined ? (cells[index] ?? "–") : number}
        </td>
      ))}
    </tr>
  );
}
