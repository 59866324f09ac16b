// The fields that each place in the panels allows: for completion, and to mark unknown fields. The engine checks the values.

import data from "./schema.json";
import type { Panel } from "./types.js";

export interface Schema {
  info?: string;
  /** The fields that may stand here. */
  fields?: Record<string, Schema>;
  /** Other fields may stand here too. */
  open?: boolean;
  /** Of each item of a list. */
  items?: Schema;
  /** Words that may stand here. */
  values?: string[];
  /** Any key may stand here; these are usual. */
  keys?: string[];
  $ref?: string;
}

interface Kind {
  version: string;
  spec: Schema;
  status?: Schema;
}

const parts = data.parts as Record<string, Schema>;
const kinds = data.kinds as Record<string, Kind>;

const KINDS: Record<Exclude<Panel, "settings">, string[]> = {
  objects: [
    "Pod",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "ReplicaSet",
    "ReplicationController",
    "Job",
    "CronJob",
    "PersistentVolumeClaim",
    "Service",
    "LimitRange",
    "ResourceQuota",
    "Namespace",
  ],
  limitRanges: ["LimitRange"],
  quotas: ["ResourceQuota", "TenantQuota"],
  usage: ["UsageProfile"],
  namespaces: ["Namespace"],
  existing: [
    "Pod",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "ReplicaSet",
    "Job",
    "CronJob",
    "PersistentVolumeClaim",
    "Service",
  ],
};

/** A line of YAML, taken apart. */
interface Line {
  /** Where its dashes stand, in characters. */
  dashes: number[];
  /** Where its key stands, or what else follows the dashes. */
  indent: number;
  key: string | undefined;
}

function take(text: string): Line {
  let rest = text.trimStart();
  let indent = text.length - rest.length;
  const dashes: number[] = [];
  while (rest.startsWith("- ") || rest === "-") {
    dashes.push(indent);
    const next = rest.slice(1).trimStart();
    indent += rest.length - next.length;
    rest = next;
  }
  const key = /^("[^"]*"|'[^']*'|[^\s#:{}[\],"']+)\s*:(\s|$)/.exec(rest)?.[1]?.replaceAll(/^["']|["']$/g, "");
  return { dashes, indent, key };
}

export interface Place {
  /** Keys and, for an item of a list, `[]`. */
  path: string[];
  kind: string | undefined;
}

const isBoundary = (text: string | undefined) => text !== undefined && /^(---|\.\.\.)(\s|$)/.test(text);
const saysNothing = (text: string) => /^\s*(#|$)/.test(text);

/** The keys and items that enclose a line, line by line. */
class Enclosing {
  #steps: { indent: number; step: string }[] = [];

  /** Where the line stands, whose key is not yet a part of it. */
  enter({ dashes, indent }: Line): string[] {
    for (const dash of dashes) {
      // A list may stand as far left as the key that it belongs to.
      this.#leave((step) => step.indent > dash || (step.indent === dash && step.step === "[]"));
      this.#steps.push({ indent: dash, step: "[]" });
    }
    this.#leave((step) => step.indent >= indent);
    return this.#steps.map((step) => step.step);
  }

  below({ key, indent }: Line) {
    if (key !== undefined) this.#steps.push({ indent, step: key });
  }

  #leave(isOver: (step: { indent: number; step: string }) => boolean) {
    while (this.#steps.length > 0 && isOver(this.#steps.at(-1)!)) this.#steps.pop();
  }
}

/** Where a line stands; a line with nothing in it stands where its blanks end. */
export function placeOf(lines: readonly string[], at: number): Place {
  let first = at;
  while (first > 0 && !isBoundary(lines[first - 1])) first--;
  const enclosing = new Enclosing();
  for (const text of lines.slice(first, at)) {
    if (saysNothing(text)) continue;
    const line = take(text);
    enclosing.enter(line);
    enclosing.below(line);
  }
  return { path: enclosing.enter(take(lines[at] ?? "")), kind: kindAt(lines, first) };
}

/** The kind of the document that begins at a line. */
function kindAt(lines: readonly string[], first: number): string | undefined {
  for (let at = first; at < lines.length && (at === first || !isBoundary(lines[at])); at++) {
    const match = /^kind:\s*["']?([A-Za-z]+)/.exec(lines[at]!);
    if (match) return match[1];
  }
  return undefined;
}

/** What may stand at a place; none if nothing is known of it. */
export function schemaAt(panel: Panel, { path, kind }: Place): Schema | undefined {
  let schema: Schema | undefined = root(panel, kind);
  for (const step of path) {
    schema = schema && resolved(schema);
    schema = step === "[]" ? schema?.items : schema?.fields?.[step];
  }
  return schema && resolved(schema);
}

function resolved(schema: Schema): Schema {
  if (!schema.$ref) return schema;
  const part = parts[schema.$ref];
  return part ? { ...resolved(part), ...(schema.info ? { info: schema.info } : {}) } : schema;
}

function root(panel: Panel, kind: string | undefined): Schema | undefined {
  if (panel === "settings" && kind === undefined) return data.settings as Schema;
  const known = kind === undefined ? undefined : kinds[kind];
  const names = panel === "settings" ? [] : KINDS[panel];
  const versions = [...new Set((known ? [known] : names.map((name) => kinds[name]!)).map((of) => of.version))];
  return {
    open: true,
    fields: {
      apiVersion: { values: versions },
      kind: { values: names },
      metadata: { $ref: "metadata" },
      ...(known ? { spec: known.spec } : {}),
      ...(known?.status ? { status: known.status } : {}),
    },
  };
}

export interface Stray {
  /** From 0. */
  line: number;
  text: string;
}

/** Fields that no reader knows, in the parts of a text that are written in lines. Of settings the engine tells itself. */
export function strays(panel: Panel, text: string): Stray[] {
  if (panel === "settings") return [];
  const lines = text.split("\n");
  const found: Stray[] = [];
  let enclosing = new Enclosing();
  let kind = kindAt(lines, 0);
  for (const [at, content] of lines.entries()) {
    if (isBoundary(content)) {
      enclosing = new Enclosing();
      kind = kindAt(lines, at + 1);
      continue;
    }
    if (saysNothing(content)) continue;
    const line = take(content);
    const path = enclosing.enter(line);
    enclosing.below(line);
    const schema = line.key === undefined ? undefined : schemaAt(panel, { path, kind });
    if (line.key === undefined || !schema?.fields || schema.open || schema.fields[line.key]) continue;
    const where = path.filter((step) => step !== "[]").join(".");
    const names = Object.keys(schema.fields).join(", ");
    found.push({ line: at, text: `\`${line.key}\` is not a field of ${where || "this object"}: expected ${names}` });
  }
  return found;
}
