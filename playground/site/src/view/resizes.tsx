// What `headroom-controller resize` did to running pods, what was taken back and why, and what it would do.

import { useState } from "preact/hooks";
import { count, inWords } from "../amounts.js";
import { linkTo } from "../list.js";
import type { Resizes } from "../types.js";
import { FEW, More, Pill, Section, ago, dated, sentence } from "./parts.js";
import { To } from "./to.js";

interface Line {
  tone: string;
  label: string;
  /** `shop/Deployment/web` */
  workload: string;
  what: string;
  why: string;
  at: string;
}

/** The Events about what is not done. */
const NOT_DONE: Record<string, [tone: string, label: string]> = {
  WouldResize: ["info", "would resize"],
  ResizeWaits: ["", "waits"],
  ResizeUnsettled: ["", "not over"],
  ResizeDoesNotFit: ["warn", "does not fit"],
  ResizeRefused: ["warn", "refused"],
};

/** What went wrong stands first. */
function linesOf({ changes, underWay, leftAlone, notDone }: Resizes): Line[] {
  return [
    ...leftAlone.map(({ workload, container, what, until, why, isTakenBack }) => ({
      tone: "warn",
      label: isTakenBack ? "taken back" : "refused",
      workload,
      what: `${container}: ${what} until ${dated(until)}`,
      why,
      at: "",
    })),
    ...underWay.map(({ workload, pod, change, why, state }) => ({
      tone: "info",
      label: "under way",
      workload,
      what: `${pod}: ${change}`,
      why: `${why}; ${state}`,
      at: "",
    })),
    ...notDone.map(({ namespace, object, reason, time, what }) => {
      const [tone, label] = NOT_DONE[reason] ?? ["", reason];
      return { tone, label, workload: `${namespace}/${object}`, what, why: "", at: time };
    }),
    ...changes.map(({ workload, raised, lowered, quiet, last, what = "", why }) => {
      const counts = [
        raised > 0 && `${raised} raised`,
        lowered > 0 && `${lowered} lowered`,
        quiet > 0 && `${quiet} settled`,
      ]
        .filter(Boolean)
        .join(", ");
      return {
        tone: "good",
        label: "changed",
        workload,
        what: what === "" ? counts : `${counts}; last ${what}`,
        why,
        at: last,
      };
    }),
  ];
}

export function Resized({ resizes, known }: { resizes: Resizes; known: Map<string, { id: string }> }) {
  const [isWhole, setWhole] = useState(false);
  const lines = linesOf(resizes);
  const named = (workload: string) => {
    const [namespace = "", kind = "", name = ""] = workload.split("/");
    const shown = (
      <>
        <span class="muted">{namespace} / </span>
        <b>{name}</b>
        <small>{kind.toLowerCase()}</small>
      </>
    );
    const found = known.get(`${namespace}/${kind.toLowerCase()}/${name}`);
    return found ? <To hash={linkTo(found)}>{shown}</To> : shown;
  };
  const changed = resizes.changes.reduce((sum, { raised, lowered }) => sum + raised + lowered, 0);
  return (
    <Section
      title="Resizes of running pods"
      note={changed > 0 ? `${count(changed, "change")} in 7 days` : "Nothing was changed in 7 days"}
      more={<More size={lines.length} isWhole={isWhole} set={setWhole} />}
    >
      <table class="stack resizes">
        <thead>
          <tr>
            <th scope="col">Workload</th>
            <th scope="col">State</th>
            <th scope="col">What</th>
            <th scope="col">Why</th>
            <th scope="col" class="number">
              Last
            </th>
          </tr>
        </thead>
        <tbody>
          {lines.slice(0, isWhole ? lines.length : FEW).map(({ tone, label, workload, what, why, at }) => (
            <tr>
              <th scope="row">{named(workload)}</th>
              <td>
                <Pill tone={tone}>{label}</Pill>
              </td>
              <td class="wrap">{inWords(what)}</td>
              <td class="wrap">{sentence(dated(why))}</td>
              <td class="number">{at !== "" && ago(at)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  );
}
