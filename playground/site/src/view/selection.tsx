// Several workloads that are changed together: what that frees, what it does to quotas, and the texts that the engine makes of it.

import { count, ofHard, withUnit } from "../amounts.js";
import { type Workload, freed } from "../inspect.js";
import { copy } from "../messages.js";
import { setList } from "../navigation.js";
import { type Form, changesOf } from "../reading.js";
import { type Cluster, isLive } from "../state.js";

/** The commands that patch some workloads, each once. */
export const commandsOf = (changed: Workload[]): string =>
  [...new Set(changed.flatMap(({ whole }) => whole?.patches ?? []).map(({ command }) => `${command}\n`))].join("");

export function Selection({ picked, cluster }: { picked: string[]; cluster: Cluster }) {
  const chosen = cluster.inspection.workloads.filter(({ id }) => picked.includes(id));
  const objects = new Set(chosen.map(({ namespace, object }) => `${namespace}/${object}`));
  // The engine changes whole workloads.
  const changed = cluster.inspection.workloads.filter(({ namespace, object }) => objects.has(`${namespace}/${object}`));
  const { cpu, memory, quotas } = freed(changed, cluster.inspection.quotas);
  const blocked = new Set(
    changed.flatMap(({ whole }) => (whole?.blocked === undefined ? [] : `${whole.namespace}/${whole.object}`)),
  );
  const scaled = changed.filter(({ flags }) => flags.includes("hpa")).length;
  const make = async (form: Form, what: string) => {
    const text = isLive() ? await changesOf(form, [...objects]) : commandsOf(changed);
    if (text !== "") await copy(text, what);
  };
  return (
    <section class="card selection" aria-label="Selection">
      <p>
        <b>{count(objects.size, "workload")} selected</b>{" "}
        <span class="muted">
          {[
            cpu !== 0 && `${cpu > 0 ? "frees" : "needs"} ${withUnit("cpu", Math.abs(cpu))}`,
            memory !== 0 && `${memory > 0 ? "frees" : "needs"} ${withUnit("memory", Math.abs(memory))}`,
            scaled > 0 && `${count(scaled, "autoscaler")} adjusted`,
          ]
            .filter(Boolean)
            .join(", ")}
        </span>
      </p>
      {quotas.length > 0 && (
        <div class="effects" tabIndex={0} role="group" aria-label="Effect on quotas">
          {quotas.map(({ namespace, name, resource, used, after, hard }) => (
            <p key={`${namespace}/${name}/${resource}`} class={after > hard ? "more" : "muted"}>
              {namespace && `${namespace}/`}
              {name} {resource}: {ofHard(resource, used, hard, after)}
              {after > hard && `, ${withUnit(resource, after - hard)} too much`}
            </p>
          ))}
        </div>
      )}
      {blocked.size > 0 && (
        <p class="more">
          {count(blocked.size, "workload")} left out, because their Pods would be rejected:{" "}
          {[...blocked].slice(0, 3).join(", ")}
        </p>
      )}
      <div class="buttons">
        <button type="button" class="primary" onClick={() => void make("patch", "Patch")}>
          Copy patch
        </button>
        {isLive() && (
          <button type="button" onClick={() => void make("kustomize", "Kustomization")}>
            Copy kustomization
          </button>
        )}
        {isLive() && (
          <button type="button" onClick={() => void make("markdown", "Pull-request text")}>
            Copy pull-request text
          </button>
        )}
        <button type="button" class="plain" onClick={() => setList({ picked: [] })}>
          Clear
        </button>
      </div>
    </section>
  );
}
