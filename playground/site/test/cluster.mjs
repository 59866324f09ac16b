// A cluster as `kubectl headroom ui` serves it, of any size: teams with workloads of all sorts, quotas, and what is at risk.

const MIB = 1024 ** 2;
const amount = (value, text) => ({ text, value });
const cpu = (milli) => amount(milli, `${milli}m`);
const memory = (mebibytes) => amount(mebibytes * MIB * 1000, `${mebibytes}Mi`);

const TEAMS = ["payments", "shop", "search", "ml", "platform"];
const APPS = ["gateway", "catalog", "kafka", "query", "trainer", "fraud-scoring-service-with-a-long-name", "checkout", "notebook-hub", "ingest", "ledger"];

/** The text of `cluster.json` with so many workloads. */
export function cluster(count = 18, { hostile } = {}) {
  const items = [];
  const lines = [];
  const risks = [];
  const sums = { cpu: [0, 0], memory: [0, 0] };
  const teams = count > 100 ? Array.from({ length: Math.ceil(count / 100) }, (_, index) => `team-${String(index).padStart(3, "0")}`) : TEAMS;
  for (const namespace of teams) items.push({ apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
  for (let index = 0; index < count; index++) {
    const namespace = teams[index % teams.length];
    const name = hostile ?? (count > 100 ? `app-${String(index).padStart(5, "0")}` : APPS[(index * 7) % APPS.length] + (index >= 10 ? "-v2" : ""));
    const kind = index % 6 === 2 ? "StatefulSet" : "Deployment";
    const object = `${kind.toLowerCase()}/${name}`;
    const container = hostile ?? "main";
    const pods = 1 + ((index * 5) % 7);
    const [request, p50] = [250 * (1 + ((index * 3) % 8)), 60 + ((index * 53) % 400)];
    const [p95, peak] = [Math.round(p50 * 1.4), Math.round(p50 * 2.2)];
    const recommended = Math.round(p95 * 1.15);
    const [requestMi, usedMi] = [512 * (1 + (index % 6)), 180 + ((index * 97) % 900)];
    const recommendedMi = Math.round(usedMi * 1.35);
    const isUnmeasured = index % 11 === 10;
    const evidence = isUnmeasured ? null : `${3 + (index % 12)}d, ${pods} pods`;
    const flags = [...(index % 9 === 1 ? ["oom 3"] : []), ...(index % 9 === 4 ? ["throttled 31%"] : []), ...(index % 5 === 0 ? ["hpa"] : [])];
    const common = { namespace, object, pods, container, evidence, flags, typical: null };
    const level = (at, value) => ({ at, ...value });
    lines.push({ ...common, resource: "cpu", request: cpu(request), limit: index % 2 ? cpu(request * 2) : null, recommended: isUnmeasured ? null : cpu(recommended), change: `${recommended - request}m`, usage: isUnmeasured ? [] : [level("p50", cpu(p50)), level("p95", cpu(p95)), level("peak", cpu(peak))], source: isUnmeasured ? "no usage data" : `p95 of 7d ${name}:1.25 in this namespace, 10080 samples; ${p95}m + 15%` });
    lines.push({ ...common, resource: "memory", request: memory(requestMi), limit: memory(requestMi * 2), recommended: isUnmeasured ? null : memory(recommendedMi), change: `${recommendedMi - requestMi}Mi`, usage: isUnmeasured ? [] : [level("p50", memory(usedMi)), level("p95", memory(Math.round(usedMi * 1.1))), level("peak", memory(Math.round(usedMi * 1.25)))], source: isUnmeasured ? "no usage data" : `peak of 7d ${name}:1.25 in this namespace, 10080 samples; ${usedMi}Mi + 15%` });
    if (!isUnmeasured) {
      sums.cpu[0] += request * pods;
      sums.cpu[1] += recommended * pods;
      sums.memory[0] += requestMi * pods;
      sums.memory[1] += recommendedMi * pods;
    }
    const risk = (risk, text, fix) => risks.push({ namespace, kind, name, container, risk, text, fix });
    if (flags.includes("oom 3")) risk("oomKilled", `OOM-killed 3 times at ${requestMi * 2}Mi`, `raise the memory limit to ${Math.round(requestMi * 2.4)}Mi`);
    if (flags.includes("throttled 31%")) risk("throttled", "throttled in 31% of its CPU periods", "raise or remove the CPU limit");
    const conditions = index === 3 ? [{ type: "ReplicaFailure", status: "True", reason: "FailedCreate", message: `pods "${name}-5d4-" is forbidden: exceeded quota: team, requested: requests.cpu=${request}m, used: requests.cpu=14, limited: requests.cpu=14`, lastTransitionTime: new Date(Date.now() - 42 * 60_000).toISOString() }] : [];
    items.push({ apiVersion: "apps/v1", kind, metadata: { name, namespace }, spec: { replicas: pods, selector: { matchLabels: { app: name } }, template: { metadata: { labels: { app: name } }, spec: { containers: [{ name: container, image: `${count > 100 ? "example" : name}:1.25`, resources: { requests: { cpu: `${request}m`, memory: `${requestMi}Mi` } } }] } } }, status: { conditions } });
  }
  for (const [index, namespace] of teams.slice(0, 100).entries()) {
    const quota = (hard, used) => items.push({ apiVersion: "v1", kind: "ResourceQuota", metadata: { name: hostile ?? "team", namespace }, spec: { hard }, status: { hard, used } });
    quota({ "requests.cpu": "20", "requests.memory": "40Gi", pods: "30" }, { "requests.cpu": `${(16.2 + (index % 4)).toFixed(1)}`, "requests.memory": `${20 + 4 * (index % 5)}Gi`, pods: String(8 + index) });
    items.push({ apiVersion: "v1", kind: "LimitRange", metadata: { name: "limits", namespace }, spec: { limits: [{ type: "Container", default: { memory: "512Mi" }, max: { memory: "32Gi" } }] } });
  }
  const hard = { "requests.cpu": "60", "requests.memory": "160Gi" };
  items.push({ apiVersion: "headroom.dev/v1alpha1", kind: "TenantQuota", metadata: { name: hostile ?? "commerce" }, spec: { quota: { hard } }, status: { hard, used: { "requests.cpu": "51", "requests.memory": "88Gi" }, namespaces: teams.slice(0, 2).map((name) => ({ name, used: {} })) } });
  const mebibytes = (value) => `${value}Mi`;
  const milli = (value) => `${value}m`;
  const sum = ([requested, recommended], text) => ({ requested: text(requested), recommended: text(recommended), saved: text(requested - recommended) });
  // The first teams have a trend; the others are too young for one.
  const trends = teams.slice(0, 3).map((namespace, index) => ({ namespace, quota: hostile ?? "team", resource: "requests.cpu", perDay: [120, -40, 900][index] }));
  const total = { workloads: count, containers: count, withoutAdvice: Math.floor(count / 11), withoutUsage: Math.floor(count / 11), savedAMonth: "1240.50", cpu: sum(sums.cpu, milli), memory: sum(sums.memory, mebibytes) };
  const advice = { headline: "", source: "Usage from Prometheus, 9 to 23 November 2026", total, risks, lines, quotas: [], notes: [`HorizontalPodAutoscaler ${hostile ?? "gateway"}: set its CPU target to 235% or expect 6 to 20 Pods`] };
  items.push({ apiVersion: "headroom.dev/v1alpha1", kind: "Snapshot", metadata: { name: "snapshot" }, spec: { settings: { estimates: { mode: "never" } }, advice, trends } });
  return JSON.stringify({ apiVersion: "v1", kind: "List", metadata: {}, items });
}
