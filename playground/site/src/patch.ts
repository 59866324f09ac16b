// The patch of one container, for kubectl.

import type { AdviceLine } from "./types.js";
import type { Workload } from "./inspect.js";

const TEMPLATES: Record<string, string[]> = { cronjob: ["spec", "jobTemplate", "spec", "template", "spec"], pod: ["spec"] };

const quoted = (word: string) => (/^[\w.@/:-]+$/.test(word) ? word : `'${word.replaceAll(/[\x00-\x1f]/g, "").replaceAll("'", `'\\''`)}'`);

/** Requests and limits as a strategic merge patch; empty where nothing is to be changed. Texts in JSON are YAML. */
export function patchOf({ namespace, object, container, cpu, memory }: Workload, context = ""): string {
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
  const of = context === "" ? "" : ` --context ${quoted(context)}`;
  return `${isPlain ? `# kubectl${of} -n ${namespace} patch ${kind} ${name} \\\n#   --patch-file patch.yaml\n` : ""}${lines.join("\n")}\n`;
}
