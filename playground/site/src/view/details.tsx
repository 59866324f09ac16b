// The details of one container: what is wrong, how its usage ran, what it should request and why, and the patch for that.

import { useEffect, useRef, useState } from "preact/hooks";
import { count, inOneUnit, inWords } from "../amounts.js";
import { hoursOf, tryOut, whyOf } from "../reading.js";
import type { Cluster } from "../state.js";
import type { Workload } from "../inspect.js";
import { peaksOf } from "../drawing.js";
import { copy } from "../messages.js";
import { marksOf, toneOf } from "../marks.js";
import { commandsOf } from "./selection.js";
import type { AdviceLine, Timeline, Why } from "../types.js";
import { Chart } from "./course.js";
import { Change, Fold, Legend, Spread, dated, sentence } from "./parts.js";

export function Details({ workload, cluster, close }: { workload: Workload; cluster: Cluster; close: () => void }) {
  const { id, namespace, object, container, pods, evidence, cpu, memory, risks, flags, doubt } = workload;
  const lowers = workload.savedCpu > 0 || workload.savedMemory > 0;
  const courseOf = useCourses(workload, cluster);
  const { whole } = workload;
  const why = useWhy(workload, cluster);
  const patches = whole?.patches ?? [];
  const rejected = cluster.inspection.rejections.groups.filter(
    (group) => group.blocked > 0 && group.namespace === namespace && group.workloads.includes(object),
  );
  const explained = cluster.inspection.advice?.flagsExplained ?? [];
  const course = courseOf("cpu");
  const others = marksOf(workload).filter(({ mark }) => mark.flag !== undefined);
  return (
    <aside class="card details" aria-label={`Details of ${object}`}>
      <header>
        <div>
          <h2 tabIndex={-1}>{object}</h2>
          <small>
            namespace {namespace} · container {container} · {count(pods, "pod")}
            {evidence !== "" && ` · measured over ${evidence}`}
          </small>
        </div>
        <button type="button" class="icon" aria-label="Close" title="Close (Esc)" onClick={close}>
          ✕
        </button>
      </header>
      {why && <Wrong why={why} known={risks.map(({ text }) => `container ${container}: ${text}`)} />}
      {risks.map((risk) => (
        <div class={`why ${toneOf(risk)}`}>
          <p>
            <b>{sentence(inWords(risk.text))}</b>
          </p>
          <p class="fix">{sentence(inWords(risk.fix))}</p>
        </div>
      ))}
      {!why?.findings.length &&
        rejected.map(({ message }) => (
          <div class="why bad">
            <p>
              <b>Blocked now</b>
            </p>
            <p class="message">{message}</p>
          </div>
        ))}
      {whole?.blocked !== undefined && (
        <div class="why warn">
          <p>
            <b>This recommendation would be blocked</b>
          </p>
          <p>{inWords(whole.blocked)}</p>
        </div>
      )}
      {[
        whole?.unpatched,
        whole?.decidedBy && `decided by ${whole.decidedBy.join(", ")} too`,
        whole?.qosClass !== whole?.qosClassAfter && `QoS class ${whole?.qosClass} → ${whole?.qosClassAfter}`,
        ...(whole?.autoscalers ?? []),
        ...(whole?.notes ?? []),
      ].map((text) => text && <p class="muted">{sentence(text)}</p>)}
      {others.length > 0 && (
        <ul class="explained">
          {others.map(({ mark, label, title }) => (
            <li key={mark.name}>
              <span class={`pill ${mark.tone}`}>{label}</span> {dated(about(title, flags, explained))}
            </li>
          ))}
        </ul>
      )}
      {course && <Legend course={course} />}
      {[cpu, memory].map(
        (line) =>
          line && (
            <section key={`${id} ${line.resource}`}>
              <h3>
                {line.resource === "cpu" ? "CPU" : "Memory"} request{" "}
                <span class="amount">
                  <Change line={line} doubt={doubt} isAlone />
                </span>
              </h3>
              {course ? <Chart line={line} course={courseOf(line.resource)!} /> : <Spread line={line} />}
              {line.usage.length > 0 && <p>{levels(line)}</p>}
              {line.recommendedLimit && line.recommendedLimit.text !== line.limit?.text && (
                <p>
                  Limit{" "}
                  <Change line={{ ...line, request: line.limit ?? null, recommended: line.recommendedLimit }} isAlone />
                </p>
              )}
              <p class="muted">{dated(line.source)}</p>
            </section>
          ),
      )}
      {lowers && doubt !== "" && whole?.blocked === undefined && (
        <div class="why warn">
          <p>
            <b>Look before you lower its requests</b>
          </p>
          <p>{sentence(inWords(doubt))}</p>
        </div>
      )}
      {patches.length > 0 && (
        <Fold title={patches.length > 1 ? "Patches of the workload and its autoscaler" : "Patch"} isOpen={doubt === ""}>
          <pre class="difference patch" tabIndex={0} role="group" aria-label="Patch">
            {patches.map(({ text }) => text).join("---\n")}
          </pre>
          <div class="buttons">
            <button type="button" onClick={() => void copy(commandsOf([workload]), "Patch")}>
              Copy patch
            </button>
          </div>
        </Fold>
      )}
    </aside>
  );
}

/** What the cluster says now, each with the one command for it, and who else decides. */
const Wrong = ({ why: { state, findings, deciders }, known }: { why: Why; known: string[] }) => (
  <>
    {state !== "" && <p class="muted">{sentence(state)}</p>}
    {findings
      .filter(({ problem }) => !known.includes(problem))
      .map(({ severity, problem, details = [], since, command }) => (
        <div key={problem} class={`why ${{ critical: "bad", warning: "warn", note: "" }[severity]}`}>
          <p>
            <b>{sentence(problem)}</b>
            {since && <span class="muted"> since {since}</span>}
          </p>
          {details.map((text) => (
            <p class="message">{text}</p>
          ))}
          {command !== "" && (
            <p>
              <code>{command}</code>
            </p>
          )}
        </div>
      ))}
    {deciders.map(({ who, decides }) => (
      <p key={who} class="muted">
        <b>{who}</b> {decides}
      </p>
    ))}
  </>
);

/** Asks the local server what is wrong with a workload, each time that the cluster was read, and to try what is recommended. */
function useWhy({ namespace, object, flags }: Workload, { scope, inspection: { madeAt } }: Cluster): Why | undefined {
  const [told, setTold] = useState<{ of: string; why: Why }>();
  const of = `${namespace}/${object}`;
  useEffect(() => {
    if (scope === undefined) return;
    let isWanted = true;
    // OK because it says that it was not tried.
    if (flags.includes("not tried yet")) tryOut(of).catch(() => {});
    whyOf(of).then(
      (why) => isWanted && setTold({ of, why }),
      // OK because the risks and rejections are shown.
      () => {},
    );
    return () => {
      isWanted = false;
    };
  }, [of, madeAt]);
  return told?.of === of ? told.why : undefined;
}

/** The engine's explanation of a flag, or else the flag as it is. */
function about(title: string, flags: string[], explained: string[]): string {
  const names = (line: string) => line.slice(0, line.indexOf(":")).split(/, | and /);
  const line = explained.find((line) =>
    flags.some((flag) => title.includes(flag) && names(line).some((name) => flag.includes(name))),
  );
  return line ? `${title.includes(" a day") ? `${title}; ` : ""}${line.slice(line.indexOf(":") + 2)}` : title;
}

/** The course of a container by the hour where the local server has a store to ask, and by the day until then. */
function useCourses(
  { id, namespace, object, container, course }: Workload,
  { scope, inspection: { madeAt } }: Cluster,
) {
  const [hours, setHours] = useState<{ id: string; course: Timeline }>();
  const asked = useRef("");
  useEffect(() => {
    if (scope === undefined || !course || asked.current === id) return;
    asked.current = id;
    hoursOf(`${namespace}/${object}`, container).then(
      (hours) => asked.current === id && setHours({ id, course: { ...hours, kills: course.kills } }),
      // OK because the days are drawn.
      () => {},
    );
  }, [id, madeAt]);
  // A store that keeps no samples so fine answers with none.
  return (resource: string) =>
    hours?.id === id && peaksOf(resource, hours.course).some((peak) => peak !== null) ? hours.course : course;
}

/** `p50 820 · p95 1,000 · peak 1,024 · limit 1,024 MiB` */
function levels({ resource, usage, limit }: AdviceLine): string {
  const all = [...usage, ...(limit ? [{ at: "limit", value: limit.value }] : [])];
  const { numbers, unit } = inOneUnit(
    resource,
    all.map(({ value }) => value),
  );
  return `${all.map(({ at }, index) => `${at}\u00a0${numbers[index]}`).join(" · ")}\u00a0${unit}`;
}
