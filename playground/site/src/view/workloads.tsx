// All containers: searched, filtered and sorted, with the details of one. Only the rows in sight are in the page.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { count, inOneUnit } from "../amounts.js";
import { type Inspection, type Workload, linkTo } from "../inspect.js";
import type { AdviceLine, Timeline } from "../types.js";
import { Chart, Sparkline } from "./course.js";
import { Frees, RiskPills, sentence, toneOf } from "./overview.js";
import { Change, Legend, Named, Spread } from "./parts.js";
import { Fold } from "./verdicts.js";

type Column = "name" | "cpu" | "memory" | "saved";
type Filter = "all" | "risk" | "saves" | "unmeasured";

/** The rows are alike high, so that those out of sight need not be there. */
const ROW = 56;
const GROUP = 32;
/** So many pixels of rows beyond the window are there. */
const AHEAD = 600;

type Item = { group: string; size: number; top: number } | { workload: Workload; top: number };

const FILTERS: Record<Filter, { label: string; holds: (workload: Workload) => boolean }> = {
  all: { label: "All containers", holds: () => true },
  risk: { label: "At risk", holds: ({ risks }) => risks.length > 0 },
  saves: { label: "Frees requests", holds: ({ saved }) => saved > 0 },
  unmeasured: { label: "No usage data", holds: ({ cpu, memory }) => !cpu?.recommended && !memory?.recommended },
};

const change = (line: AdviceLine | undefined) => (line?.recommended ? Math.abs((line.request?.value ?? 0) - line.recommended.value) : -1);
const KEYS: Record<Column, (workload: Workload) => number> = { name: () => 0, cpu: ({ cpu, pods }) => change(cpu) * pods, memory: ({ memory, pods }) => change(memory) * pods, saved: ({ saved }) => saved };

export function Workloads({ inspection, selected, filter: first, show, copy }: { inspection: Inspection; selected: string | undefined; filter: Filter | undefined; show: (hash: string) => void; copy: (text: string, what: string) => void }) {
  const { workloads, namespaces } = inspection;
  const [search, setSearch] = useState("");
  const [namespace, setNamespace] = useState("");
  const [filter, setFilter] = useState<Filter>(first ?? "all");
  const [order, setOrder] = useState<{ column: Column; isRising: boolean }>({ column: "saved", isRising: false });
  const [isGrouped, setGrouped] = useState(true);
  useEffect(() => first && setFilter(first), [first]);

  const { items, height, found } = useMemo(() => {
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    const found = workloads.filter((workload) => (namespace === "" || workload.namespace === namespace) && FILTERS[filter].holds(workload) && words.every((word) => workload.id.toLowerCase().includes(word) || workload.flags.some((flag) => flag.includes(word))));
    const key = KEYS[order.column];
    const sign = order.isRising ? 1 : -1;
    const compare = (a: Workload, b: Workload) => (order.column === "name" ? sign * (a.id < b.id ? -1 : a.id > b.id ? 1 : 0) : sign * (key(a) - key(b)));
    found.sort(compare);
    const groups = new Map<string, Workload[]>();
    for (const workload of found) {
      const group = isGrouped ? workload.namespace : "";
      const of = groups.get(group);
      if (of) of.push(workload);
      else groups.set(group, [workload]);
    }
    const items: Item[] = [];
    let height = 0;
    for (const [group, of] of groups) {
      if (isGrouped) {
        items.push({ group, size: of.length, top: height });
        height += GROUP;
      }
      for (const workload of of) {
        items.push({ workload, top: height });
        height += ROW;
      }
    }
    return { items, height, found };
  }, [workloads, search, namespace, filter, order, isGrouped]);

  const scroller = useRef<HTMLDivElement>(null);
  const [window_, setWindow] = useState({ top: 0, height: 900 });
  const look = () => {
    const { scrollTop, clientHeight } = scroller.current!;
    if (Math.abs(scrollTop - window_.top) > AHEAD / 3 || clientHeight !== window_.height) setWindow({ top: scrollTop, height: clientHeight });
  };
  useLayoutEffect(look);
  // Who follows a link to one workload sees it in its list too, and still when its details are closed.
  const last = useRef(selected);
  useLayoutEffect(() => {
    last.current = selected ?? last.current;
    const item = items.find((item) => "workload" in item && item.workload.id === last.current);
    const { scrollTop, clientHeight } = scroller.current!;
    if (item && (item.top < scrollTop || item.top > scrollTop + clientHeight - 2 * ROW)) scroller.current!.scrollTop = item.top - clientHeight / 3;
  }, [selected]);
  const firstIndex = Math.max(0, after(items, window_.top - AHEAD) - 1);
  const lastIndex = after(items, window_.top + window_.height + AHEAD);
  const shown = items.slice(firstIndex, lastIndex);
  const above = shown[0]?.top ?? 0;
  const below = height - (items[lastIndex]?.top ?? height);

  const chosen = selected === undefined ? undefined : workloads.find(({ id }) => id === selected);
  const sorted = (column: Column) => (order.column === column ? ({ "aria-sort": order.isRising ? "ascending" : "descending" } as const) : {});
  const sort = (column: Column) => setOrder({ column, isRising: order.column === column ? !order.isRising : column === "name" });
  const head = (column: Column, label: ComponentChildren, kind = "") => <th scope="col" class={kind} {...sorted(column)}><button type="button" onClick={() => sort(column)}>{label}</button></th>;

  return (
    <div class="view workloads">
      <h2 class="hidden">Workloads</h2>
      <div class="tools">
        <input type="search" aria-label="Search workloads" placeholder="Search by name, kind or flag" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        <select aria-label="Namespace" value={namespace} onChange={(event) => setNamespace(event.currentTarget.value)}>
          <option value="">All namespaces</option>
          {namespaces.map((name) => <option key={name} value={name}>{name}</option>)}
        </select>
        <select aria-label="Filter" value={filter} onChange={(event) => setFilter(event.currentTarget.value as Filter)}>
          {(Object.keys(FILTERS) as Filter[]).map((name) => <option key={name} value={name}>{FILTERS[name].label}</option>)}
        </select>
        <label class="field"><input type="checkbox" checked={isGrouped} onChange={(event) => setGrouped(event.currentTarget.checked)} />Group by namespace</label>
        <span class="muted" role="status">{count(found.length, "container")}</span>
        <Legend course={workloads.find(({ course }) => course)?.course} />
      </div>
      {selected !== undefined && !chosen && <p class="card section muted" role="status">{selected} is not here any more, or not in this namespace.</p>}
      <div class={chosen ? "master detailed" : "master"}>
        <div class="card scroller" ref={scroller} onScroll={look} tabIndex={0} role="group" aria-label="Workloads, table">
          <table aria-rowcount={items.length + 1}>
            <thead><tr aria-rowindex={1}>{head("name", "Workload")}{head("cpu", <>CPU<span class="rest"> request, cores</span></>, "number")}<th scope="col" class="wide">CPU usage</th>{head("memory", <>Memory<span class="rest"> request</span></>, "number")}<th scope="col" class="wide">Memory usage</th>{head("saved", "Frees", "number")}</tr></thead>
            <tbody>
              {above > 0 && <tr aria-hidden="true" class="gap"><td style={{ height: `${above}px` }} /></tr>}
              {shown.map((item, index) =>
                "group" in item ? (
                  <tr key={`group ${item.group}`} class="group" aria-rowindex={firstIndex + index + 2}><th scope="rowgroup">{item.group} <small>{count(item.size, "container")}</small></th></tr>
                ) : (
                  <tr key={item.workload.id} aria-rowindex={firstIndex + index + 2} class={item.workload.id === selected ? "row selected" : "row"} onClick={() => show(linkTo(item.workload))}>
                    <th scope="row"><span class="named">
                      <a href={linkTo(item.workload)} aria-current={item.workload.id === selected ? "true" : undefined} onClick={(event) => { event.preventDefault(); show(linkTo(item.workload)); event.stopPropagation(); }}><Named {...item.workload} namespace={isGrouped ? "" : item.workload.namespace} below={` · ${count(item.workload.pods, "pod")}`} /></a>
                      <RiskPills workload={item.workload} />
                    </span></th>
                    <td class="number" data-label="CPU"><Change line={item.workload.cpu} /></td>
                    <td class="wide"><Usage line={item.workload.cpu} course={item.workload.course} /></td>
                    <td class="number" data-label="Memory"><Change line={item.workload.memory} /></td>
                    <td class="wide"><Usage line={item.workload.memory} course={item.workload.course} /></td>
                    <td class="number"><Frees workload={item.workload} /></td>
                  </tr>
                ),
              )}
              {below > 0 && <tr aria-hidden="true" class="gap"><td style={{ height: `${below}px` }} /></tr>}
            </tbody>
          </table>
          {items.length === 0 && <p class="blank">{workloads.length === 0 ? "No workload runs here." : "Nothing matches. Clear the search or choose another filter."}</p>}
        </div>
        {chosen && <Details workload={chosen} close={() => show("#workloads")} copy={copy} />}
      </div>
    </div>
  );
}

/** Its course where that is known, or else how it was distributed. */
const Usage = ({ line, course }: { line: AdviceLine | undefined; course: Timeline | undefined }) => (course && line?.usage.length ? <Sparkline line={line} course={course} /> : <Spread line={line} />);

/** How many items begin before a place. */
function after(items: Item[], top: number): number {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (items[middle]!.top < top) low = middle + 1;
    else high = middle;
  }
  return low;
}

function Details({ workload, close, copy }: { workload: Workload; close: () => void; copy: (text: string, what: string) => void }) {
  const { namespace, object, container, pods, evidence, cpu, memory, risks, course } = workload;
  const patch = patchOf(workload);
  return (
    <aside class="card details" aria-label={`Details of ${object}`}>
      <header><div><h2>{object}</h2><small>namespace {namespace} · container {container} · {count(pods, "pod")}{evidence !== "" && ` · measured over ${evidence}`}</small></div><button type="button" class="icon" aria-label="Close" onClick={close}>✕</button></header>
      {risks.map(({ risk, text, fix }) => <div class={`why ${toneOf(risk)}`}><p><b>{sentence(text)}</b></p><p class="fix">{sentence(fix)}</p></div>)}
      {[cpu, memory].map((line) => line && (
        <section key={line.resource}>
          <h3>{line.resource === "cpu" ? "CPU" : "Memory"} request <span class="amount"><Change line={line} />{line.resource === "cpu" && " cores"}</span></h3>
          {course && <Chart line={line} course={course} />}
          <Spread line={line} />
          {line.usage.length > 0 && <p>{levels(line)}</p>}
          {line.recommendedLimit && line.recommendedLimit.text !== line.limit?.text && <p>Limit <Change line={{ ...line, request: line.limit, recommended: line.recommendedLimit }} /></p>}
          <p class="muted">{line.source}</p>
        </section>
      ))}
      {patch !== "" && (
        <Fold title="Patch" isOpen>
          <pre class="difference patch" tabIndex={0} role="group" aria-label="Patch">{patch}</pre>
          <button type="button" onClick={() => copy(patch, "Patch")}>Copy patch</button>
        </Fold>
      )}
    </aside>
  );
}

/** `p50 820 · p95 1,000 · peak 1,024 · limit 1,024 MiB` */
function levels({ resource, usage, limit }: AdviceLine): string {
  const all = [...usage, ...(limit ? [{ at: "limit", value: limit.value }] : [])];
  const { numbers, unit } = inOneUnit(resource, all.map(({ value }) => value));
  return `${all.map(({ at }, index) => `${at}\u00a0${numbers[index]}`).join(" · ")}\u00a0${unit}`;
}

const TEMPLATES: Record<string, string[]> = { cronjob: ["spec", "jobTemplate", "spec", "template", "spec"], pod: ["spec"] };

/** Requests and limits as a strategic merge patch; empty where nothing is to be changed. Texts in JSON are YAML. */
export function patchOf({ namespace, object, container, cpu, memory }: Workload): string {
  const both = [cpu, memory].filter((line) => line !== undefined);
  const set = (name: string, amount: (line: AdviceLine) => [now: string | undefined, then: string | undefined]) => {
    const amounts = both.flatMap((line) => {
      const [now, then] = amount(line);
      return then !== undefined && then !== now ? [`${line.resource}: ${JSON.stringify(then)}`] : [];
    });
    return amounts.length > 0 ? [`    ${name}:`, ...amounts.map((line) => `      ${line}`)] : [];
  };
  const resources = [
    ...set("limits", ({ limit, recommendedLimit }) => [limit?.text, recommendedLimit?.text]),
    ...set("requests", ({ request, recommended }) => [request?.text, recommended?.text]),
  ];
  if (resources.length === 0) return "";
  const [kind, name] = object.split("/", 2) as [string, string];
  const path = TEMPLATES[kind] ?? ["spec", "template", "spec"];
  const containers = both.some(({ isInit }) => isInit) ? "initContainers" : "containers";
  const inner = [`${containers}:`, `- name: ${JSON.stringify(container)}`, "  resources:", ...resources];
  const lines = [...path.map((step, depth) => `${"  ".repeat(depth)}${step}:`), ...inner.map((line) => "  ".repeat(path.length) + line)];
  const isPlain = /^[a-z0-9./-]+$/.test(`${namespace}${kind}${name}`);
  return `${isPlain ? `# kubectl -n ${namespace} patch ${kind} ${name} \\\n#   --patch-file patch.yaml\n` : ""}${lines.join("\n")}\n`;
}
