// What keys do everywhere, and the commands of the palette.

import { LIST, linkTo, listed, write } from "./list.js";
import { turnTheme } from "./messages.js";
import { search, setList, show } from "./navigation.js";
import { refresh } from "./reading.js";
import { TABS, change, isLive, state, tabs } from "./state.js";

export interface Command {
  label: string;
  /** What kind of command it is, or a key that does the same. */
  note: string;
  run: () => void;
}

/** So many are changed at once. */
const PICKED = 500;

const theme = { label: "Dark or light", note: "Theme", run: turnTheme };

/** The commands of the palette, with the workloads and quotas that are searched for; `others` are those of the page with an engine. */
export function commands(wanted: string, others: Command[]): Command[] {
  const { cluster, tab } = state;
  if (!cluster) return [...others, theme];
  const { workloads, quotas, namespaces } = cluster.inspection;
  const to = (label: string, note: string, hash: string): Command => ({ label, note, run: () => show(hash) });
  const pickAll = () => {
    const all = listed(workloads, state.list);
    setList({ picked: all.slice(0, PICKED).map(({ id }) => id) });
  };
  return [
    ...tabs().map((tab) => to(TABS[tab], "View", `#${tab}`)),
    to("At risk", "Filter", write({ ...LIST, only: "risk" })),
    { label: "Search", note: "/", run: search },
    ...(isLive() ? [to("Proposed quotas and LimitRanges", "Quotas", "#quotas=proposed")] : []),
    ...(isLive() ? [{ label: "Read the cluster again", note: "Refresh", run: () => void refresh() }] : []),
    ...others,
    ...(tab === "workloads" ? [{ label: "Select all that are listed", note: "Selection", run: pickAll }] : []),
    theme,
    ...(wanted.trim() === ""
      ? []
      : [
          ...workloads.map((workload) => {
            const { namespace, object, container } = workload;
            return to(`${namespace} / ${object} ${container}`, "Workload", linkTo(workload));
          }),
          ...namespaces.map((namespace) => to(namespace, "Namespace", write({ ...LIST, namespace }))),
          ...quotas.map(({ namespace, name }) => to(`${namespace}/${name}`, "Quota", "#quotas")),
        ]),
  ];
}

/** Keys that mean the same everywhere. */
export function press(event: KeyboardEvent) {
  const target = event.target as HTMLElement | null;
  const typed = target?.closest?.("input:not([type=checkbox]), select, textarea, #editor");
  if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey))
    change({ isPaletteOpen: !state.isPaletteOpen });
  else if (event.key === "/" && !typed && state.cluster && !state.isPaletteOpen) search();
  else if (event.key === "Escape" && typed?.id === "search") target!.blur();
  else return;
  event.preventDefault();
}
