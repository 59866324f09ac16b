// The figures at the top of the overview. What nobody knows is grey and says so: it never looks as if all were well.

import type { ComponentChildren } from "preact";
import { inOneUnit, money, thousandths, withUnit } from "../amounts.js";
import type { Inspection, Workload } from "../inspect.js";
import { toneOf } from "../marks.js";
import { Bar } from "./parts.js";
import type { Sum, Total } from "../types.js";

interface Figure {
  tone?: string;
  figure: ComponentChildren;
  unit: string;
  children: ComponentChildren;
}

const Stat = ({ tone = "", figure, unit, children }: Figure) => (
  <div class={`card stat ${tone}`}>
    <b>
      {figure} <small>{unit}</small>
    </b>
    {children}
  </div>
);

export function Stats({ inspection, risky }: { inspection: Inspection; risky: Workload[] }) {
  const { advice, unknown, isFirst, rejections, missed, workloads } = inspection;
  const total = advice?.total;
  const isBad = risky.some(({ risks }) => risks.some((risk) => toneOf(risk) === "bad"));
  const blocked = rejections.groups.reduce((sum, group) => sum + group.blocked, 0);
  const unmeasured = workloads.filter(({ evidence }) => evidence === "").length;
  const risks =
    unknown !== ""
      ? `${risky.length > 0 ? "Without a request. " : ""}Not known: who is killed, throttled or above their request`
      : risky.length > 0
        ? "Killed, throttled, above their request, or without one: fix these first"
        : unmeasured > 0
          ? `No container with usage data is killed, throttled or without a request; ${unmeasured} have none`
          : "No container is killed, throttled or without a request";
  return (
    <section class="stats" aria-label="At a glance">
      <Stat
        tone={isBad ? "bad" : risky.length > 0 ? "warn" : unknown !== "" ? "unknown" : ""}
        figure={unknown !== "" && risky.length === 0 ? "–" : risky.length.toLocaleString("en")}
        unit="at risk"
      >
        <span>{risks}</span>
      </Stat>
      <Stat
        tone={blocked > 0 ? "bad" : missed.length > 0 ? "unknown" : ""}
        figure={blocked === 0 && missed.length > 0 ? "–" : blocked.toLocaleString("en")}
        unit="blocked now"
      >
        <span>
          {blocked > 0
            ? "Workloads whose Pods the API server rejects"
            : missed.length > 0
              ? "Not known: not everything could be read"
              : rejections.groups.length > 0
                ? "Pods were rejected recently, see below"
                : "Every Deployment can create its Pods"}
        </span>
      </Stat>
      {unknown !== "" ? (
        <Stat tone="unknown" figure="–" unit={isFirst ? "usage is being read" : "usage unknown"}>
          <span>{isFirst ? "What runs and what it requests is there already" : "What can be freed is not known"}</span>
        </Stat>
      ) : (
        total && (
          <>
            <Freed title="CPU" resource="cpu" sum={total.cpu} />
            <Freed title="Memory" resource="memory" sum={total.memory} />
            {total.savedAMonth && (
              <Stat figure={money(total.savedAMonth, total.currency)} unit="a month">
                <span>Net saving, once nodes are removed</span>
                <span>{spent(total)}</span>
              </Stat>
            )}
          </>
        )
      )}
    </section>
  );
}

/** `4,506 EUR requested now, 2,934 EUR freed, 1,318 EUR added`, with as many digits as the saving. */
function spent({ costAMonth, freedAMonth, addedAMonth, currency }: Total): string {
  const parts = [
    ["requested now", costAMonth],
    ["freed", freedAMonth],
    ["added", addedAMonth],
  ] as const;
  return parts.flatMap(([what, size]) => (size === undefined ? [] : [`${money(size, currency)} ${what}`])).join(", ");
}

function Freed({ title, resource, sum }: { title: string; resource: string; sum: Sum }) {
  const [requested, recommended] = [sum.requested, sum.recommended].map((text) => thousandths(text) ?? 0) as [
    number,
    number,
  ];
  const saved = requested - recommended;
  const percent = requested > 0 ? Math.round((saved / requested) * 100) : 0;
  const {
    numbers: [before, after],
    unit,
  } = inOneUnit(resource, [requested, recommended]);
  const [figure, of = ""] = withUnit(resource, Math.abs(saved)).split(" ");
  return (
    <Stat figure={figure} unit={of}>
      <span>
        {title} {saved >= 0 ? "you can free" : "needed besides"}
        {percent !== 0 && (
          <em class={saved >= 0 ? "less" : "more"}>
            {" "}
            {saved >= 0 ? "−" : "+"}
            {Math.abs(percent)}%
          </em>
        )}
      </span>
      <Bar used={Math.min(requested, recommended)} hard={Math.max(requested, recommended)} isShare />
      <span>
        {after} of {before} {unit} needed
      </span>
    </Stat>
  );
}
