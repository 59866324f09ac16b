// Runs the engine beside the page, so that the page answers to its keys however long an evaluation takes.

import init, { evaluate, open, policy, replay, simulate } from "../engine/engine.js";
import { inspect } from "./inspect.js";

export type Call = {
  id: number;
  name: "evaluate" | "replay" | "policy" | "open" | "simulate" | "inspect";
  input: unknown;
};
/** `text` is what the engine answers: JSON with one of the others. */
export type Answer = { id: number; milliseconds: number } & ({ text: string } | { ok: unknown } | { error: string });

const functions = { evaluate, open, policy, replay, simulate };
const ready = init({ module_or_path: new URL("engine_bg.wasm", import.meta.url) });

self.onmessage = async ({ data }: MessageEvent<Call>) => {
  const { id, name, input } = data;
  try {
    const begin = performance.now();
    if (name === "inspect") {
      // The views need no engine, so they do not wait for one.
      const ok = inspect(input as string);
      self.postMessage({ ok, id, milliseconds: performance.now() - begin } satisfies Answer);
      return;
    }
    return await ask(id, name, input);
  } catch (error) {
    self.postMessage({
      id,
      milliseconds: 0,
      error: error instanceof Error ? error.message : String(error),
    } satisfies Answer);
  }
};

async function ask(id: number, name: keyof typeof functions, input: unknown) {
  await ready;
  const begin = performance.now();
  const text = functions[name](typeof input === "string" ? input : JSON.stringify(input));
  const milliseconds = performance.now() - begin;
  // A text is handed over faster than what it holds.
  self.postMessage({ text, id, milliseconds } satisfies Answer);
}
