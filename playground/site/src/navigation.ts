// Views and their addresses. Only a cluster that stays where it is has its views in the address: a live one, or one inside a file.

import { LIST, type List, read, write } from "./list.js";
import { propose, refresh } from "./reading.js";
import { TABS, type Tab, change, focusOn, isLive, state } from "./state.js";

/** Browsers bear only so many changes of the address in a minute. */
const REST = 250;

let settled = 0;

/** Goes to a view: `#workloads?only=risk`, `#workload=shop/deployment/web/nginx`. */
export function show(hash: string) {
  address(hash, true);
  route(hash);
  if (state.tab === "workloads" && state.list.at !== undefined) focusOn(".details h2");
}

function address(hash: string, isStep: boolean) {
  clearTimeout(settled);
  if (state.kind === "playground" || location.hash === hash) return;
  if (isStep) history.pushState(null, "", hash);
  else settled = window.setTimeout(() => history.replaceState(null, "", hash), REST);
}

/** Changes what the list of workloads shows. */
export function setList(part: Partial<List>, isStep = false) {
  state.list = { ...state.list, ...part };
  address(write(state.list), isStep);
  change();
  if (isStep && part.at !== undefined) focusOn(".details h2");
}

export function route(hash: string) {
  const [, name = "", value = ""] = /^#([\w-]*)[=?]?(.*)$/s.exec(hash) ?? [];
  const isProposed = isLive() && name === "quotas" && value === "proposed";
  if (isProposed) void propose();
  const tab = name === "workload" ? "workloads" : name in TABS ? (name as Tab) : "overview";
  const list = name === "workload" ? { ...LIST, at: decoded(value) } : name === "workloads" ? read(value) : state.list;
  change({ isProposed, tab, list });
}

/** Chooses another namespace of the live cluster; none for what it was started with. */
export function enter(namespace: string) {
  const query = namespace && `?namespace=${encodeURIComponent(namespace)}`;
  history.replaceState(null, "", `${location.pathname}${query}${location.hash}`);
  state.list = { ...state.list, namespace: "", at: undefined, picked: [] };
  void refresh();
}

/** Goes to the search of the view, or of the workloads. */
export function search() {
  if (!document.querySelector("#search")) show("#workloads");
  focusOn("#search");
}

/** Somebody may have shortened an address. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
