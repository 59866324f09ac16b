// A snapshot of a cluster as the views show it. Nothing is decided here: recommendations and risks were made by
// `kubectl headroom`, which also grouped what was rejected, and usage of quotas by Kubernetes.

import { money, thousandths } from "./amounts.js";
import type { Advice, AdviceLine, OfWorkload, Rejections, Resizes, Timeline } from "./types.js";

export interface Inspection {
  /** The name of the cluster's context; empty if nobody knows it. */
  context: string;
  objects: number;
  namespaces: string[];
  /** Null where the snapshot was made without usage, or nothing runs. */
  advice: Advice | null;
  workloads: Workload[];
  quotas: Quota[];
  rejections: Rejections;
  /** Why nobody knows what is used; empty if it is known. */
  unknown: string;
  /** Usage is still being read. */
  isFirst?: boolean;
  /** What could not be read. */
  missed: string[];
  madeAt: Date;
  /** Undefined where no loop resizes pods. */
  resizes: Resizes | undefined;
  /** The containers whose requests were changed in the last day, as far as the local server knows. */
  changes: { id: string; isAsRecommended: boolean }[];
  /** Namespaces in which something runs without any quota, or without a LimitRange. */
  unbounded: { byQuota: string[]; byLimitRange: string[] };
}

/** A container with its resources. */
export interface Workload {
  /** For links: `shop/deployment/web/nginx`. */
  id: string;
  namespace: string;
  object: string;
  container: string;
  pods: number;
  evidence: string;
  tooBrief: boolean;
  cpu: AdviceLine | undefined;
  memory: AdviceLine | undefined;
  flags: string[];
  course: Timeline | undefined;
  /** What to fix, the worst first. */
  risks: { text: string; fix: string; risk: string; severity: string }[];
  /** What its workload's patches are, or why it has none. */
  whole: OfWorkload | undefined;
  /** Its place among all risks, the worst first, as the engine orders them. */
  rank: number;
  /** The API server rejects its Pods now. */
  isBlocked: boolean;
  /** Requests that could be freed over all pods, in thousandths; below zero where more is needed. */
  savedCpu: number;
  savedMemory: number;
  /** Both in one figure: money, or as if one core cost as much as 8 GiB. */
  saved: number;
  /** What that is a month, where there are prices. */
  money: string | undefined;
  /** Why its requests ought not to be lowered without a look; empty if nothing speaks against it. */
  doubt: string;
}

export interface Quota {
  kind: "ResourceQuota" | "TenantQuota";
  /** Empty for a TenantQuota. */
  namespace: string;
  name: string;
  parent: string;
  amounts: Level[];
  /** Of a TenantQuota: the namespaces that it covers, the largest first. */
  covers: string[];
}

/** How full a quota is of one resource, in thousandths. */
export interface Level {
  resource: string;
  used: number;
  hard: number;
  /** How much `used` grows in a day; undefined where nobody knows. */
  perDay?: number;
}

// biome-ignore lint/suspicious/noExplicitAny: objects of the cluster have fields of any kind
type Json = Record<string, any>;

/** Null for what is no list of objects. */
export function inspect(text: string): Inspection | null {
  const list = JSON.parse(text) as Json | null;
  if (list?.kind !== "List" || !Array.isArray(list.items)) return null;
  const items: Json[] = list.items;
  const about = items.find((item) => item?.kind === "Snapshot");
  const advice = (about?.spec?.advice ?? null) as Advice | null;
  const objects = items.filter((item) => item && item !== about);
  const trends = new Map<string, number>();
  for (const { namespace, quota, resource, perDay } of about?.spec?.trends ?? [])
    trends.set(`${namespace}/${quota}/${resource}`, perDay);
  const namespaces = new Set<string>();
  for (const { kind, metadata } of objects) {
    // Usage history stands in a namespace of Headroom's own.
    if (kind === "UsageProfile") continue;
    const name = kind === "Namespace" ? metadata?.name : metadata?.namespace;
    if (typeof name === "string" && name !== "") namespaces.add(name);
  }
  const workloads = advice ? workloadsOf(advice) : [];
  for (const { namespace } of workloads) namespaces.add(namespace);
  const rejections = (about?.spec?.rejections as Rejections | undefined) ?? { groups: [], isCut: false, problem: null };
  const blocked = new Set(
    rejections.groups
      .filter(({ blocked }) => blocked > 0)
      .flatMap(({ namespace, workloads }) => workloads.map((object) => `${namespace}/${object}`)),
  );
  for (const workload of workloads) workload.isBlocked = blocked.has(`${workload.namespace}/${workload.object}`);
  const quotas = objects
    .filter(({ kind }) => kind === "ResourceQuota" || kind === "TenantQuota")
    .map((object) => quota(object, trends));
  const inUse = [...new Set(workloads.map(({ namespace }) => namespace))].sort();
  const without = (bounded: Iterable<string>) => {
    const those = new Set(bounded);
    return inUse.filter((namespace) => !those.has(namespace));
  };
  const unmeasured = workloads.length > 0 && workloads.every(({ evidence }) => evidence === "");
  return {
    unknown: about?.spec?.unknown ?? (unmeasured ? "Its source has no samples of any container that runs here." : ""),
    missed: about?.spec?.missed ?? [],
    madeAt: about?.spec?.madeAt === undefined ? new Date() : new Date(about.spec.madeAt * 1000),
    context: typeof about?.spec?.cluster === "string" ? about.spec.cluster : "",
    objects: about?.spec?.objects ?? objects.length,
    namespaces: [...namespaces].sort(),
    advice,
    workloads,
    quotas,
    rejections,
    resizes: about?.spec?.resizes as Resizes | undefined,
    changes: (about?.spec?.changes ?? []) as Inspection["changes"],
    unbounded: {
      byQuota: without(quotas.flatMap(({ namespace, covers }) => [namespace, ...covers])),
      byLimitRange: without(
        objects.filter(({ kind }) => kind === "LimitRange").map(({ metadata }) => String(metadata?.namespace)),
      ),
    },
  };
}

/** CPU and memory in one figure, as if one core cost as much as 8 GiB. */
export const inOne = (cpu: number, memory: number) => cpu * 8 * 1024 ** 3 + memory;

function workloadsOf(advice: Advice): Workload[] {
  const all = new Map<string, Workload>();
  const whole = new Map((advice.workloads ?? []).map((of) => [`${of.namespace}/${of.object}`, of]));
  for (const line of advice.lines) {
    const id = `${line.namespace}/${line.object}/${line.container}`;
    let workload = all.get(id);
    if (!workload) {
      const { namespace, object, container, pods } = line;
      workload = {
        id,
        namespace,
        object,
        container,
        pods,
        evidence: line.evidence ?? "",
        tooBrief: line.tooBrief ?? false,
        cpu: undefined,
        memory: undefined,
        flags: line.flags ?? [],
        course: line.course,
        risks: [],
        whole: whole.get(`${namespace}/${object}`),
        rank: Infinity,
        isBlocked: false,
        savedCpu: 0,
        savedMemory: 0,
        saved: 0,
        money: undefined,
        doubt: "",
      };
      all.set(id, workload);
    }
    if (line.resource !== "cpu" && line.resource !== "memory") continue;
    workload[line.resource] = line;
    if (line.resource === "cpu") workload.savedCpu = line.saved ?? 0;
    else workload.savedMemory = line.saved ?? 0;
    workload.saved = inOne(workload.savedCpu, workload.savedMemory);
  }
  const amounts = new Map(
    advice.lines.flatMap(({ namespace, object, container, savedAMonth }) =>
      savedAMonth === undefined ? [] : [[`${namespace}/${object}/${container}`, Number(savedAMonth)] as const],
    ),
  );
  const largest = Math.max(0, ...[...amounts.values()].map(Math.abs));
  for (const [id, amount] of amounts)
    Object.assign(all.get(id)!, { saved: amount, money: money(amount, advice.total?.currency, largest) });
  for (const [rank, { namespace, kind, name, container, risk, text, fix, severity = "" }] of (
    advice.risks ?? []
  ).entries()) {
    const workload = all.get(`${namespace}/${kind.toLowerCase()}/${name}/${container}`);
    workload?.risks.push({ risk, text, fix, severity });
    if (workload) workload.rank = Math.min(rank, workload.rank);
  }
  for (const workload of all.values()) workload.doubt = doubtOf(workload);
  return [...all.values()];
}

/** The flags of containers that may need more than they used. */
const DOUBTFUL = [
  "short history",
  "too little data",
  "reads",
  "whole cpus",
  "below peak",
  "nightly",
  "weekly",
  "last seen",
];
/** Who uses so small a part of so much may be kept for later: a reserve, or the idle half of a pair. */
const IDLE = { part: 1 / 20, cpu: 500, memory: 512 * 1024 ** 2 * 1000 };

function doubtOf({ whole, flags, cpu, memory }: Workload): string {
  if (whole?.blocked !== undefined) return `it would be blocked: ${whole.blocked}`;
  const flag = flags.find((flag) => DOUBTFUL.some((start) => flag.startsWith(start)) || / times a day /.test(flag));
  if (flag) return flag;
  const idle = [cpu, memory].find((line) => {
    const [now, then] = [line?.request?.value ?? 0, line?.recommended?.value];
    return then !== undefined && now >= IDLE[line!.resource as "cpu" | "memory"] && then <= now * IDLE.part;
  });
  return idle ? `it uses almost none of its ${idle.resource === "cpu" ? "CPU" : "memory"}: is it kept for later?` : "";
}

function quota({ kind, metadata, spec, status }: Json, trends: Map<string, number>): Quota {
  const hard = (status?.hard ?? spec?.quota?.hard ?? spec?.hard ?? {}) as Json;
  const amounts = Object.keys(hard).map((resource): Level => {
    const perDay = trends.get(`${metadata?.namespace ?? ""}/${metadata?.name}/${resource}`);
    return {
      resource,
      used: thousandths(status?.used?.[resource] ?? "0") ?? 0,
      hard: thousandths(hard[resource]) ?? 0,
      ...(perDay === undefined ? {} : { perDay }),
    };
  });
  const covers = ((status?.namespaces ?? []) as Json[]).map(({ name }) => String(name));
  return {
    kind,
    namespace: kind === "TenantQuota" ? "" : (metadata?.namespace ?? ""),
    name: metadata?.name ?? "",
    parent: String(spec?.parent ?? ""),
    amounts,
    covers,
  };
}

/** The resource of requests that a name of a quota counts. */
export const counted = (resource: string): "cpu" | "memory" | undefined =>
  ({ "requests.cpu": "cpu", cpu: "cpu", "requests.memory": "memory", memory: "memory" })[resource] as
    | "cpu"
    | "memory"
    | undefined;

/** What changing some containers frees in all, in thousandths, and how it fills the quotas of their namespaces. */
export function freed(changed: Workload[], quotas: Quota[]) {
  const of = (all: Workload[], resource: "cpu" | "memory") =>
    all.reduce((sum, workload) => sum + (resource === "cpu" ? workload.savedCpu : workload.savedMemory), 0);
  const filled = quotas.flatMap(({ namespace, name, amounts, covers }) => {
    const inside = changed.filter(
      (workload) => workload.namespace === namespace || covers.includes(workload.namespace),
    );
    return amounts.flatMap(({ resource, used, hard }) => {
      const request = counted(resource);
      const saved = request ? of(inside, request) : 0;
      return saved === 0 ? [] : [{ namespace, name, resource, used, after: used - saved, hard }];
    });
  });
  return { cpu: of(changed, "cpu"), memory: of(changed, "memory"), quotas: filled };
}
