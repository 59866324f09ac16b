// The editor's panels, in the groups in which people think of them.

import type { Panel } from "./types.js";

export const LABELS: Record<Panel, string> = {
  objects: "Objects",
  limitRanges: "LimitRanges",
  quotas: "Quotas",
  usage: "Usage",
  namespaces: "Namespaces",
  existing: "In the cluster",
  settings: "Settings",
};

/** What an empty panel says. */
export const HINTS: Record<Panel, string> = {
  objects: "Paste a manifest: a Pod, a Deployment, anything that you would apply.",
  limitRanges: "Paste a LimitRange of the namespace.",
  quotas: "Paste a ResourceQuota or TenantQuota. Its status says what is used.",
  usage: "Paste a UsageProfile: what images have used before.",
  namespaces: "Paste a Namespace, if its labels or annotations matter.",
  existing: "Paste objects that exist already, so that yours update them.",
  settings: "Paste settings of the policy. Empty means the defaults.",
};

/** The panels that a snapshot's objects are tried with. */
export const TRIED: Panel[] = ["limitRanges", "quotas", "namespaces", "settings"];
