// What the page says in a corner, what it copies, and whether it is dark.

import { type Toast, change, state } from "./state.js";

let toasted = 0;

export function say(text: string, tone: Toast["tone"] = "good", field?: string, stays = false) {
  clearTimeout(toasted);
  if (tone === "good" && field === undefined && !stays) toasted = window.setTimeout(hush, 6_000);
  change({ toast: { text, tone, ...(field === undefined ? {} : { field }) } });
}

export const hush = () => change({ toast: undefined });

export async function copy(text: string, what: string) {
  const { cluster } = state;
  try {
    await navigator.clipboard.writeText(text);
    say(`${what}${cluster?.inspection.context ? ` for cluster ${cluster.inspection.context}` : ""} copied.`);
  } catch {
    say(`The browser does not let the page copy: ${what.toLowerCase()} is below.`, "good", text);
  }
}

const THEME = "headroom.theme";

function show(theme: string) {
  document.documentElement.dataset.theme = theme;
  change({ theme });
}

export function showStoredTheme() {
  let stored: string | null = null;
  try {
    stored = localStorage.getItem(THEME);
  } catch {
    // OK because the browser's own preference stands then.
  }
  show(stored === "light" || stored === "dark" ? stored : "auto");
}

export function turnTheme() {
  const isDark = state.theme === "auto" ? matchMedia("(prefers-color-scheme: dark)").matches : state.theme === "dark";
  show(isDark ? "light" : "dark");
  try {
    localStorage.setItem(THEME, state.theme);
  } catch {
    // OK because the theme lasts as long as the page then.
  }
}
