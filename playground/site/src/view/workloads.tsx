// All containers: searched, filtered, sorted and selected, with the details of one. Only the rows in sight are in the page.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { count } from "../amounts.js";
import { type Cluster, state } from "../state.js";
import type { Workload } from "../inspect.js";
import { type Column, listed, write } from "../list.js";
import { MARKS } from "../marks.js";
import { setList } from "../navigation.js";
import type { AdviceLine, Timeline } from "../types.js";
import { Sparkline } from "./course.js";
import { Details } from "./details.js";
import { Frees, Marks } from "./overview.js";
import { Change, Legend, Named, Search, Spread, sentence } from "./parts.js";
import { Selection } from "./selection.js";
import { AHEAD, useSight } from "./sight.js";

/** The rows are alike high, so that those out of sight need not be there. */
const ROW = 56;
const GROUP = 32;
/** So many rows go onto paper. */
const PRINTED = 2_000;

type Item = { group: string; size: number; top: number } | { workload: Workload; top: number };

export function Workloads({ cluster }: { cluster: Cluster }) {
  const { list } = state;
  const { workloads, namespaces, advice } = cluster.inspection;
  const { q, namespace, only, sort, isRising, isFlat, at, picked } = list;
  const found = useMemo(() => listed(workloads, list), [workloads, q, namespace, only, sort, isRising, isFlat]);
  const { items, height } = useMemo(() => itemsOf(found, isFlat), [found]);
  const chips = useMemo(
    () =>
      MARKS.map((mark) => ({ ...mark, size: workloads.filter(mark.holds).length })).filter(
        ({ size, name }) => size > 0 || name === only,
      ),
    [workloads, only],
  );

  const scroller = useRef<HTMLDivElement>(null);
  const { sight, measured, look, scrollTo, again } = useSight(scroller);
  // Who follows a link to one workload sees it in its list too, and still when its details are closed.
  const last = useRef(at);
  const toFocus = useRef<string | undefined>(undefined);
  const bringIntoSight = (id: string | undefined, isNear: boolean) => {
    // On a phone the details take its place.
    if (scroller.current!.offsetParent === null) return window.scrollTo(0, 0);
    const item = items.find((item) => "workload" in item && item.workload.id === id);
    const { top, height } = measured();
    if (!item || (item.top >= top && item.top <= top + height - 2 * ROW)) return;
    scrollTo(isNear && item.top > top ? item.top - height + 2 * ROW : item.top - (isNear ? ROW : height / 3));
  };
  useLayoutEffect(() => {
    last.current = at ?? last.current;
    bringIntoSight(last.current, toFocus.current !== undefined);
  }, [at]);
  useLayoutEffect(() => {
    const link =
      toFocus.current === undefined
        ? null
        : scroller.current!.querySelector<HTMLElement>(`a[data-id="${CSS.escape(toFocus.current)}"]`);
    if (!link) return;
    toFocus.current = undefined;
    link.focus({ preventScroll: true });
  });
  const firstIndex = state.isPrinted ? 0 : Math.max(0, after(items, sight.top - AHEAD) - 1);
  const lastIndex = state.isPrinted ? PRINTED : after(items, sight.top + sight.height + AHEAD);
  const shown = items.slice(firstIndex, lastIndex);
  const above = shown[0]?.top ?? 0;
  const below = height - (items[lastIndex]?.top ?? height);

  const pick = (id: string) =>
    setList({ picked: picked.includes(id) ? picked.filter((one) => one !== id) : [...picked, id] });
  const close = () => {
    toFocus.current = at;
    setList({ at: undefined }, true);
  };
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const focused = document.activeElement as HTMLElement | null;
      if (
        event.ctrlKey ||
        event.metaKey ||
        event.altKey ||
        event.defaultPrevented ||
        focused?.closest("input:not([type=checkbox]), select, textarea, dialog, #editor")
      )
        return;
      const isInDetails = Boolean(focused?.closest(".details"));
      const here = toFocus.current ?? focused?.dataset.id ?? at ?? last.current;
      const step = { j: 1, k: -1, ...(isInDetails ? {} : { ArrowDown: 1, ArrowUp: -1 }) }[event.key];
      if (step !== undefined) {
        const place = found.findIndex(({ id }) => id === here);
        const next = found[place < 0 ? 0 : Math.min(found.length - 1, Math.max(0, place + step))]?.id;
        if (next === undefined) return;
        if (!isInDetails) toFocus.current = next;
        last.current = next;
        if (at !== undefined) setList({ at: next });
        else {
          bringIntoSight(next, true);
          again();
        }
      } else if (event.key === "x" && here !== undefined) pick(here);
      else if (event.key === "Escape" && at !== undefined) close();
      else if (event.key === "Escape" && picked.length > 0) setList({ picked: [] });
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  });

  const chosen = at === undefined ? undefined : workloads.find(({ id }) => id === at);
  const sorted = (column: Column) =>
    sort === column ? ({ "aria-sort": isRising ? "ascending" : "descending" } as const) : {};
  const head = (column: Column, label: ComponentChildren, kind = "") => (
    <th scope="col" class={kind} {...sorted(column)}>
      <button
        type="button"
        onClick={() => setList({ sort: column, isRising: sort === column ? !isRising : column === "name" })}
      >
        {label}
      </button>
    </th>
  );

  return (
    <div class={`view workloads ${cluster.inspection.isFirst ? "pending" : ""}`}>
      <h2 class="hidden">Workloads</h2>
      <div class="tools">
        <Search of="workloads" by="name, kind or flag" text={q} change={(q) => setList({ q })} />
        {namespaces.length > 1 && (
          <select
            aria-label="Namespace"
            value={namespace}
            onChange={(event) => setList({ namespace: event.currentTarget.value })}
          >
            <option value="">All namespaces</option>
            {namespaces.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        )}
        <label class="field">
          <input
            type="checkbox"
            checked={!isFlat}
            onChange={(event) => setList({ isFlat: !event.currentTarget.checked })}
          />
          Group by namespace
        </label>
        <span class="muted" role="status">
          {count(found.length, "container")}
        </span>
        <Legend course={workloads.find(({ course }) => course)?.course} />
      </div>
      <div class="chips" role="group" aria-label="Filter">
        {chips.map(({ name, label, tone, size }) => (
          <button
            key={name}
            type="button"
            class={`chip ${tone}`}
            aria-pressed={only === name}
            onClick={() => setList({ only: only === name ? "" : name })}
          >
            {sentence(label)} <span>{size.toLocaleString("en")}</span>
          </button>
        ))}
        {(q !== "" || only !== "" || namespace !== "") && (
          <button type="button" class="plain" onClick={() => setList({ q: "", only: "", namespace: "" })}>
            Clear
          </button>
        )}
      </div>
      {at !== undefined && !chosen && (
        <p class="card section muted" role="status">
          {at} is not here any more, or not in this namespace.
        </p>
      )}
      <div class={chosen ? "master detailed" : "master"}>
        <div
          class="card scroller"
          ref={scroller}
          onScroll={look}
          tabIndex={0}
          role="group"
          aria-label="Workloads, table"
        >
          <table aria-rowcount={items.length + 1}>
            <thead>
              <tr aria-rowindex={1}>
                {head("name", "Workload")}
                {head(
                  "cpu",
                  <>
                    CPU<span class="rest"> request, cores</span>
                  </>,
                  "number",
                )}
                <th scope="col" class="wide">
                  CPU usage
                </th>
                {head(
                  "memory",
                  <>
                    Memory<span class="rest"> request</span>
                  </>,
                  "number",
                )}
                <th scope="col" class="wide">
                  Memory usage
                </th>
                {head("saved", <>Saves{advice?.money && <span class="rest"> a month</span>}</>, "number")}
              </tr>
            </thead>
            <tbody>
              {above > 0 && (
                <tr aria-hidden="true" class="gap">
                  <td style={{ height: `${above}px` }} />
                </tr>
              )}
              {shown.map((item, index) =>
                "group" in item ? (
                  <tr key={`group ${item.group}`} class="group" aria-rowindex={firstIndex + index + 2}>
                    <th scope="rowgroup">
                      {item.group} <small>{count(item.size, "container")}</small>
                    </th>
                  </tr>
                ) : (
                  <tr
                    key={item.workload.id}
                    aria-rowindex={firstIndex + index + 2}
                    class={`row ${item.workload.id === at ? "selected" : ""} ${picked.includes(item.workload.id) ? "picked" : ""}`}
                    onClick={() => setList({ at: item.workload.id }, true)}
                  >
                    <th scope="row">
                      <span class="named">
                        <input
                          type="checkbox"
                          aria-label={`Select ${item.workload.object} ${item.workload.container}`}
                          checked={picked.includes(item.workload.id)}
                          onClick={(event) => event.stopPropagation()}
                          onChange={() => pick(item.workload.id)}
                        />
                        <a
                          href={write({ ...list, at: item.workload.id })}
                          data-id={item.workload.id}
                          aria-current={item.workload.id === at ? "true" : undefined}
                          onClick={(event) => {
                            event.preventDefault();
                            event.stopPropagation();
                            setList({ at: item.workload.id }, true);
                          }}
                        >
                          <Named
                            {...item.workload}
                            namespace={isFlat ? item.workload.namespace : ""}
                            below={` · ${count(item.workload.pods, "pod")}`}
                          />
                        </a>
                        <Marks workload={item.workload} most={2} />
                      </span>
                    </th>
                    <td class="number" data-label="CPU">
                      <Change line={item.workload.cpu} doubt={item.workload.doubt} />
                    </td>
                    <td class="wide">
                      <Usage line={item.workload.cpu} course={item.workload.course} />
                    </td>
                    <td class="number" data-label="Memory">
                      <Change line={item.workload.memory} doubt={item.workload.doubt} />
                    </td>
                    <td class="wide">
                      <Usage line={item.workload.memory} course={item.workload.course} />
                    </td>
                    <td class="number">
                      <Frees workload={item.workload} />
                    </td>
                  </tr>
                ),
              )}
              {below > 0 && (
                <tr aria-hidden="true" class="gap">
                  <td style={{ height: `${below}px` }} />
                </tr>
              )}
            </tbody>
          </table>
          {items.length === 0 && (
            <p class="blank">
              {workloads.length === 0
                ? "No workload runs here."
                : "Nothing matches. Clear the search or choose another filter."}
            </p>
          )}
        </div>
        {chosen && <Details workload={chosen} cluster={cluster} close={close} />}
      </div>
      {picked.length > 0 && <Selection picked={picked} cluster={cluster} />}
    </div>
  );
}

function itemsOf(found: Workload[], isFlat: boolean): { items: Item[]; height: number } {
  const items: Item[] = [];
  let height = 0;
  let group: Extract<Item, { group: string }> | undefined;
  for (const workload of found) {
    if (!isFlat && group?.group !== workload.namespace) {
      group = { group: workload.namespace, size: 0, top: height };
      items.push(group);
      height += GROUP;
    }
    if (group) group.size++;
    items.push({ workload, top: height });
    height += ROW;
  }
  return { items, height };
}

/** Its course where that is known, or else how it was distributed. */
const Usage = ({ line, course }: { line: AdviceLine | undefined; course: Timeline | undefined }) =>
  course && line?.usage.length ? <Sparkline line={line} course={course} /> : <Spread line={line} />;

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
