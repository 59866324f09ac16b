// What the list of workloads shows, as its address says: `#workloads?q=web&only=oomKilled&sort=-cpu&at=shop/deployment/web/nginx`.

import type { Workload } from "./inspect.js";
import { MARKS } from "./marks.js";

export type Column = "name" | "cpu" | "memory" | "saved";

export interface List {
  /** Words that all have to be in a container's name, kind, namespace or flags. */
  q: string;
  namespace: string;
  /** A filter; all if it is empty. */
  only: string;
  sort: Column;
  isRising: boolean;
  isFlat: boolean;
  /** The container whose details are shown. */
  at: string | undefined;
  /** Those that are selected, to be changed together. */
  picked: string[];
}

export const LIST: List = {
  q: "",
  namespace: "",
  only: "",
  sort: "saved",
  isRising: false,
  isFlat: false,
  at: undefined,
  picked: [],
};

const isColumn = (text: string): text is Column => ["name", "cpu", "memory", "saved"].includes(text);

export function read(query: string): List {
  const values = new URLSearchParams(query);
  const text = (name: string) => values.get(name) ?? "";
  const sort = text("sort").replace(/^-/, "");
  return {
    q: text("q"),
    namespace: text("ns"),
    only: text("only"),
    ...(isColumn(sort)
      ? { sort, isRising: !text("sort").startsWith("-") }
      : { sort: LIST.sort, isRising: LIST.isRising }),
    isFlat: values.has("flat"),
    at: text("at") || undefined,
    picked: values.getAll("pick"),
  };
}

export function write(list: List): string {
  const values = new URLSearchParams();
  const set = (name: string, value: string) => value !== "" && values.append(name, value);
  set("q", list.q);
  set("ns", list.namespace);
  set("only", list.only);
  if (list.sort !== LIST.sort || list.isRising) set("sort", `${list.isRising ? "" : "-"}${list.sort}`);
  if (list.isFlat) set("flat", "1");
  set("at", list.at ?? "");
  for (const id of list.picked) set("pick", id);
  const query = String(values).replaceAll("%2F", "/");
  return query === "" ? "#workloads" : `#workloads?${query}`;
}

/** The address of a workload's details. */
export const linkTo = ({ id }: Pick<Workload, "id">): string => write({ ...LIST, at: id });

const change = ({ pods, cpu, memory }: Workload, resource: "cpu" | "memory") => {
  const line = resource === "cpu" ? cpu : memory;
  return line?.recommended ? Math.abs((line.request?.value ?? 0) - line.recommended.value) * pods : -1;
};
const KEYS: Record<Column, (workload: Workload) => number> = {
  name: () => 0,
  cpu: (of) => change(of, "cpu"),
  memory: (of) => change(of, "memory"),
  saved: ({ saved }) => saved,
};

export type Finds = (texts: string[]) => boolean;

/** Finds what has every word of a search in one of its texts. */
export function search(text: string): Finds {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return (texts) => words.every((word) => texts.some((one) => one.toLowerCase().includes(word)));
}

/** Those that are searched for, in order; by namespace where they are grouped. */
export function listed(workloads: Workload[], { q, namespace, only, sort, isRising, isFlat }: List): Workload[] {
  const finds = search(q);
  const holds = MARKS.find(({ name }) => name === only)?.holds ?? (() => true);
  const found = workloads.filter(
    (workload) =>
      (namespace === "" || workload.namespace === namespace) &&
      holds(workload) &&
      finds([workload.id, ...workload.flags]),
  );
  const [key, sign] = [KEYS[sort], isRising ? 1 : -1];
  found.sort((a, b) => (sort === "name" ? sign * (a.id < b.id ? -1 : a.id > b.id ? 1 : 0) : sign * (key(a) - key(b))));
  if (isFlat) return found;
  return [...byNamespace(found).values()].flat();
}

export function byNamespace(workloads: Workload[]): Map<string, Workload[]> {
  const groups = new Map<string, Workload[]>();
  for (const workload of workloads) {
    const of = groups.get(workload.namespace);
    if (of) of.push(workload);
    else groups.set(workload.namespace, [workload]);
  }
  return groups;
}
