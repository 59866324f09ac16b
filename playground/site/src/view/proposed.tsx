// Quotas and LimitRanges as they should be, beside today's, each value with its reason, and what they would do to what runs.

import type { ComponentChildren } from "preact";
import { count, inOneUnit, thousandths } from "../amounts.js";
import type { Finds } from "../list.js";
import { copy } from "../messages.js";
import type { Proposing } from "../state.js";
import type { ProposedLimits, ProposedQuota } from "../types.js";
import { Pill, dated } from "./parts.js";
import { Rows } from "./waiting.js";

/** So many cards are drawn; a search finds the others. */
const MOST = 100;

interface Card {
  kind: string;
  namespace: string;
  name: string;
  isNew: boolean;
  yaml: string;
  rows: ComponentChildren;
  note?: string;
  heads: string[];
}

export function Proposed({ bounds, finds }: { bounds: Proposing | undefined; finds: Finds }) {
  if (bounds?.problem !== undefined)
    return (
      <p class="card section problems" role="alert">
        No bounds are proposed: {bounds.problem}
      </p>
    );
  if (!bounds?.answer) return <Rows told="Reading usage and trying bounds against everything that runs…" />;
  const { quotas = [], limitRanges = [], trial, notes = [], about, yaml } = bounds.answer;
  const all = [
    ...quotas.map((quota, index) => ofQuota(quota, yaml[index]!)),
    ...limitRanges.map((range, index) => ofLimits(range, yaml[quotas.length + index]!)),
  ];
  const found = all.filter(({ kind, namespace, name }) => finds([kind, `${namespace}/${name}`]));
  found.sort((a, b) => (a.namespace < b.namespace ? -1 : a.namespace > b.namespace ? 1 : 0));
  const { rejected, exceeded = [], missed = [] } = trial;
  return (
    <>
      <section class="listed" aria-label="Trial of all proposals">
        <header>
          <h2>
            With all of them{" "}
            <small>
              {count(trial.objects, "object")} if recreated
              {trial.changed > 0 && `, ${trial.changed.toLocaleString("en")} with other values`}
            </small>
          </h2>
          {found.length > 0 && (
            <button
              type="button"
              class="plain"
              onClick={() => void copy(found.map((of) => of.yaml).join(""), "YAML of all shown")}
            >
              Copy YAML of all shown
            </button>
          )}
        </header>
        <ul class="card since">
          {rejected.length + exceeded.length === 0 && (
            <li>
              <Pill tone="good">nothing would be rejected</Pill>
            </li>
          )}
          {rejected.map(({ namespace, object, reasons }) => (
            <li key={`${namespace} ${object}`}>
              <Pill tone="bad">would be rejected</Pill>{" "}
              <b>
                {namespace} / {object}
              </b>
              : {reasons.join("; ")}
            </li>
          ))}
          {exceeded.map((quota) => (
            <li key={quota}>
              <Pill tone="bad">exceeded</Pill> {quota}
            </li>
          ))}
          {missed.map((problem) => (
            <li key={problem}>
              <Pill tone="warn">not read</Pill> {problem}
            </li>
          ))}
          {[about, ...notes].map((note) => (
            <li key={note} class="muted">
              {dated(note)}
            </li>
          ))}
        </ul>
      </section>
      {found.length === 0 && (
        <p class="blank">{all.length === 0 ? "No bounds are proposed." : "Nothing matches. Clear the search."}</p>
      )}
      <div class="grid wide">
        {found.slice(0, MOST).map(({ kind, namespace, name, isNew, yaml, rows, note, heads }) => (
          <section
            key={`${kind} ${namespace}/${name}`}
            class="card section quota"
            aria-label={`Proposed ${kind} ${namespace && `${namespace}/`}${name}`}
          >
            <header>
              <h2>
                {namespace && <span class="muted">{namespace} / </span>}
                {name} {isNew && <Pill tone="info">new</Pill>}
              </h2>
              <button type="button" onClick={() => void copy(yaml, `YAML of ${kind} ${name}`)}>
                Copy YAML
              </button>
            </header>
            <small>
              {kind}
              {note && ` · ${note}`}
            </small>
            <div class="table" tabIndex={0} role="group" aria-label={`${kind} ${namespace}/${name}, table`}>
              <table class="proposed stack">
                <thead>
                  <tr>
                    {heads.map((head, index) => (
                      <th scope="col" class={index > 0 ? "number" : ""}>
                        {head}
                      </th>
                    ))}
                  </tr>
                </thead>
                {rows}
              </table>
            </div>
          </section>
        ))}
      </div>
      {found.length > MOST && (
        <p class="muted">{(found.length - MOST).toLocaleString("en")} more: a search finds them.</p>
      )}
    </>
  );
}

/** A row of amounts, with the reason below it. */
const Row = ({
  name,
  heads,
  cells,
  reason,
}: {
  name: string;
  heads: string[];
  cells: ComponentChildren[];
  reason: string;
}) => (
  <tbody>
    <tr>
      <th scope="row">{name}</th>
      {cells.map((cell, index) => (
        <td class="number" data-label={heads[index + 1]}>
          {cell}
        </td>
      ))}
    </tr>
    <tr class="reason">
      <td colSpan={cells.length + 1}>{reason}</td>
    </tr>
  </tbody>
);

function ofQuota({ kind, namespace = "", name, amounts }: ProposedQuota, yaml: string): Card {
  const heads = ["Resource", "Used", "Today", "Proposed", "Unused", "Full"];
  const rows = amounts.map(({ resource, used, hard, proposed, unusedThen, full, fullThen, reason }) => {
    const { numbers, unit } = inOneUnit(
      resource,
      [used, hard ?? proposed, proposed, unusedThen].map((text) => thousandths(text) ?? 0),
    );
    const behind = unit && ` ${unit}`;
    return (
      <Row
        key={resource}
        name={resource}
        heads={heads}
        reason={reason}
        cells={[
          numbers[0],
          hard === undefined ? "none" : numbers[1],
          <b>
            {numbers[2]}
            {behind}
          </b>,
          numbers[3],
          <>
            {dated(fullThen ?? "–")}
            {full !== undefined && full !== fullThen && <small>today {dated(full)}</small>}
          </>,
        ]}
      />
    );
  });
  return { kind, namespace, name, isNew: amounts.every(({ hard }) => hard === undefined), yaml, rows, heads };
}

function ofLimits({ namespace, name, bounds, beside = [] }: ProposedLimits, yaml: string): Card {
  const heads = ["Bound of a container", "Today", "Proposed"];
  const rows = bounds.map(({ field, resource, today, proposed, reason }) => {
    const isRatio = field === "maxLimitRequestRatio";
    const { numbers, unit } = inOneUnit(
      isRatio ? "" : resource,
      [today ?? proposed, proposed ?? today].map((text) => thousandths(text ?? "0") ?? 0),
    );
    const behind = unit && ` ${unit}`;
    return (
      <Row
        key={`${field} ${resource}`}
        name={`${field} ${resource}`}
        heads={heads}
        reason={reason}
        cells={[
          today === undefined ? "none" : numbers[0] + behind,
          <b>{proposed === undefined ? "none" : numbers[1] + behind}</b>,
        ]}
      />
    );
  });
  const note = beside.length > 0 ? `LimitRange ${beside.join(", ")} applies to containers as well` : "";
  return {
    kind: "LimitRange",
    namespace,
    name,
    isNew: bounds.every(({ today }) => today === undefined),
    yaml,
    rows,
    note,
    heads,
  };
}
