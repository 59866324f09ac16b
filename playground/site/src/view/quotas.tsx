// Quotas: how full they are, who uses them, and what fits in what is left. TenantQuotas stand above those of their namespaces.

import { useState } from "preact/hooks";
import { amount, count, forecast, thousandths } from "../amounts.js";
import { type Inspection, type Quota, type Workload, counted, inOne } from "../inspect.js";
import { byNamespace, search } from "../list.js";
import { show } from "../navigation.js";
import { isLive, state } from "../state.js";
import { Fold, Meter, Search, Table } from "./parts.js";
import { Proposed } from "./proposed.js";

export function QuotaView({ inspection: { quotas: all, workloads, advice } }: { inspection: Inspection }) {
  const { isProposed, bounds } = state;
  const [text, setText] = useState("");
  const [isAfter, setAfter] = useState(false);
  const advised = new Map(
    (isAfter ? (advice?.quotas ?? []) : []).map(({ namespace, quota, resource, usedAfter }) => [
      `${namespace}/${quota}/${resource}`,
      thousandths(usedAfter),
    ]),
  );
  const finds = search(text);
  const quotas = all.filter(({ namespace, name, covers, amounts }) =>
    finds([namespace, name, ...covers, ...amounts.map(({ resource }) => resource)]),
  );
  const inside = byNamespace(workloads);
  const card = (quota: Quota) => (
    <QuotaCard
      key={`${quota.namespace}/${quota.name}`}
      quota={quota}
      workloads={[quota.namespace, ...quota.covers].flatMap((namespace) => inside.get(namespace) ?? [])}
      afterOf={(resource) => advised.get(`${quota.namespace}/${quota.name}/${resource}`)}
    />
  );
  const fullest = [...quotas].sort((a, b) => fullness(b) - fullness(a));
  const tenants = fullest.filter(({ kind }) => kind === "TenantQuota");
  const own = fullest.filter(({ kind }) => kind === "ResourceQuota");
  const covered = new Set(tenants.flatMap(({ covers }) => covers));
  const of = (namespaces: string[]) => own.filter(({ namespace }) => namespaces.includes(namespace));
  const tree = (tenant: Quota) => (
    <div key={tenant.name}>
      {card(tenant)}
      <div class="children">
        {tenants.filter(({ parent }) => parent === tenant.name).map(tree)}
        {of(tenant.covers).map(card)}
      </div>
    </div>
  );
  const names = new Set(tenants.map(({ name }) => name));
  const turn = (label: string, hash: string, isOn: boolean) => (
    <button type="button" aria-pressed={isOn} onClick={() => show(hash)}>
      {label}
    </button>
  );
  return (
    <div class="view quotas">
      <h2 class="hidden">Quotas</h2>
      <div class="tools">
        {isLive() && (
          <div class="segments" role="group" aria-label="Bounds">
            {turn("Today", "#quotas", !isProposed)}
            {turn("Proposed", "#quotas=proposed", isProposed)}
          </div>
        )}
        <Search of="quotas" by="namespace, name or resource" text={text} change={setText} />
        {!isProposed && advice && advice.quotas.length > 0 && (
          <label class="field">
            <input type="checkbox" checked={isAfter} onChange={(event) => setAfter(event.currentTarget.checked)} />
            After the recommendations
          </label>
        )}
        {!isProposed && (
          <span class="muted" role="status">
            {count(quotas.length, "quota")}
          </span>
        )}
      </div>
      {isProposed && <Proposed bounds={bounds} finds={finds} />}
      {!isProposed && quotas.length === 0 && (
        <p class="blank">
          {all.length > 0
            ? "Nothing matches. Clear the search."
            : "No ResourceQuota or TenantQuota bounds these namespaces."}
        </p>
      )}
      {!isProposed && tenants.filter(({ parent, name }) => !names.has(parent) || parent === name).map(tree)}
      {!isProposed && <div class="grid">{own.filter(({ namespace }) => !covered.has(namespace)).map(card)}</div>}
    </div>
  );
}

const requested = (workload: Workload, resource: "cpu" | "memory") => workload[resource]?.request?.value ?? 0;

/** The largest used share of any of its resources. */
const fullness = ({ amounts }: Pick<Quota, "amounts">) =>
  amounts.reduce((most, { used, hard }) => Math.max(most, hard > 0 ? used / hard : used > 0 ? 2 : 0), 0);

function QuotaCard({
  quota: { kind, namespace, name, amounts, covers },
  workloads,
  afterOf,
}: {
  quota: Quota;
  workloads: Workload[];
  afterOf: (resource: string) => number | undefined;
}) {
  const users = workloads.map((workload) => ({
    workload,
    cpu: requested(workload, "cpu") * workload.pods,
    memory: requested(workload, "memory") * workload.pods,
  }));
  users.sort((a, b) => inOne(b.cpu, b.memory) - inOne(a.cpu, a.memory));
  return (
    <section class="card section quota" aria-label={`${kind} ${namespace && `${namespace}/`}${name}`}>
      <header>
        <h2>
          {namespace && <span class="muted">{namespace} / </span>}
          {name}
        </h2>
        {fullness({ amounts }) > 1 && <span class="pill bad">exceeded</span>}
      </header>
      <small>
        {kind}
        {covers.length > 0 && ` over ${count(covers.length, "namespace")}`}
      </small>
      <ul class="meters">
        {amounts.map(({ resource, used, hard, perDay }) => (
          <Meter
            key={resource}
            name={resource}
            resource={resource}
            used={used}
            after={afterOf(resource) ?? used}
            hard={hard}
            note={perDay === undefined ? undefined : forecast({ used, hard, perDay })}
          />
        ))}
      </ul>
      {users.length > 0 && (
        <Fold title="Who uses it, and what still fits">
          <Table heads={["Workload", "CPU", "Memory", "More Pods that fit"]} numbers={1}>
            {users.slice(0, 10).map(({ workload, cpu, memory }) => (
              <tr key={workload.id}>
                <th scope="row">
                  {kind === "TenantQuota" && <span class="muted">{workload.namespace} / </span>}
                  {workload.object}
                  <small>
                    {workload.container} · {count(workload.pods, "pod")}
                  </small>
                </th>
                <td class="number">{amount("cpu", cpu)}</td>
                <td class="number">{amount("memory", memory)}</td>
                <td class="number">{fits(amounts, workload, workloads)}</td>
              </tr>
            ))}
          </Table>
          {users.length > 10 && <p class="muted">{users.length - 10} more request less.</p>}
        </Fold>
      )}
    </section>
  );
}

/** How many more pods like these fit by what all their containers request, as far as the quota counts it. */
function fits(amounts: Quota["amounts"], { namespace, object }: Workload, workloads: Workload[]): string {
  const containers = workloads.filter((other) => other.namespace === namespace && other.object === object);
  const room = amounts.flatMap(({ resource, used, hard }) => {
    const of = counted(resource);
    const each =
      resource === "pods" || resource === "count/pods"
        ? 1000
        : of
          ? containers.reduce((sum, one) => sum + requested(one, of), 0)
          : 0;
    return each > 0 ? [Math.max(0, Math.floor((hard - used) / each))] : [];
  });
  return room.length === 0 ? "–" : Math.min(...room).toLocaleString("en");
}
