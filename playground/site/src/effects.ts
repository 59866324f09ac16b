// The effects of a simulation by what they have in common: what happens to a hundred workloads for one reason is said once.

import type { Effect } from "./types.js";

export interface EffectGroup {
  change: string;
  /** In the order of the report; the first is shown in full. */
  effects: [Effect, ...Effect[]];
  namespaces: string[];
  running: number;
  /** False where names and amounts differ, so that each says it in words of its own. */
  isSame: boolean;
}

/** Groups in the order of their first effects, which is that of the report: the worst change first. */
export function grouped(effects: Effect[]): EffectGroup[] {
  const groups = new Map<string, EffectGroup & { text: string }>();
  for (const effect of effects) {
    const key = `${effect.change}\n${textOf(effect).map(shape).join("\n")}`;
    const text = textOf(effect).join("\n");
    const group = groups.get(key);
    if (!group) {
      groups.set(key, {
        change: effect.change,
        effects: [effect],
        namespaces: [effect.namespace],
        running: effect.running,
        isSame: true,
        text,
      });
      continue;
    }
    group.effects.push(effect);
    group.running += effect.running;
    group.isSame &&= group.text === text;
    if (!group.namespaces.includes(effect.namespace)) group.namespaces.push(effect.namespace);
  }
  return [...groups.values()];
}

/** What is said of an effect, without the name of its object. */
function textOf({ object, reasons = [], values = [], warnings = [] }: Effect): string[] {
  const name = object.slice(object.indexOf("/") + 1);
  const nameless = (text: string) =>
    text.replaceAll(`"${name}"`, '""').replaceAll(`"${name}-"`, '""').replaceAll(`/${name}`, "/");
  return [
    ...reasons.map(nameless),
    ...values.map(
      ({ container, field, now, then, reason }) =>
        `${container}: ${field} ${now ?? "not set"} ${then ?? "not set"} ${reason}`,
    ),
    ...warnings.map(nameless),
  ];
}

/** A text without amounts and names of containers. */
const shape = (text: string): string =>
  text.replaceAll(/\bcontainer [^\s:]+:/g, "container:").replaceAll(/-?\b\d[\w.]*/g, "#");
