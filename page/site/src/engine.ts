// The engine as the page sees it: asynchronous, one call at a time.

import type { Answer, Call } from "./worker.js";
import type { Outcome, Overview, Play, Replay, Trial } from "./types.js";

/** What a call came to, and how long the engine took. */
export interface Timed<Result> {
  result: Result;
  milliseconds: number;
}

export class Engine {
  #worker: Worker;
  #calls = new Map<number, (answer: Answer) => void>();
  #next = 0;

  constructor() {
    this.#worker = new Worker(trusted("worker.js"), { type: "module" });
    this.#worker.onmessage = ({ data }: MessageEvent<Answer>) => {
      this.#calls.get(data.id)?.(data);
      this.#calls.delete(data.id);
    };
    this.#worker.onerror = (event) => {
      const error = event.message || "the engine cannot be loaded";
      for (const [id, answer] of this.#calls) answer({ id, milliseconds: 0, error });
      this.#calls.clear();
    };
  }

  judge(play: Play): Promise<Timed<Outcome>> {
    return this.#call("judge", play);
  }

  async replay(play: Play, row: number): Promise<Replay> {
    return (await this.#call<Replay>("replay", { play, row })).result;
  }

  async policy(settings: string): Promise<string> {
    return (await this.#call<string>("policy", { settings })).result;
  }

  /** Opens a snapshot of a cluster, in place of the one before. */
  open(snapshot: string, settings: string): Promise<Timed<Overview>> {
    return this.#call("open", { snapshot, settings });
  }

  /** Judges everything in the open snapshot as the panels would have it. */
  simulate(play: Play): Promise<Timed<Trial>> {
    return this.#call("simulate", play);
  }

  #call<Result>(name: Call["name"], input: unknown): Promise<Timed<Result>> {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#calls.set(id, (answer) => {
        if ("error" in answer) reject(new Error(answer.error));
        else resolve({ result: answer.ok as Result, milliseconds: answer.milliseconds });
      });
      this.#worker.postMessage({ id, name, input } satisfies Call);
    });
  }
}

/** Of several calls that are asked for while one runs, only the last is made. */
export function latest<Input>(run: (input: Input) => Promise<void>): (input: Input) => void {
  let isRunning = false;
  let waiting: { input: Input } | undefined;
  return async function start(input: Input) {
    waiting = { input };
    if (isRunning) return;
    isRunning = true;
    while (waiting) {
      const next: { input: Input } = waiting;
      waiting = undefined;
      await run(next.input);
    }
    isRunning = false;
  };
}

/** The page's policy for script addresses allows this one worker, where the browser asks (Trusted Types). */
function trusted(address: "worker.js"): string {
  const factory = (globalThis as { trustedTypes?: TrustedTypeFactory }).trustedTypes;
  const policy = factory?.createPolicy("headroom", {
    createScriptURL: (wanted) => {
      if (wanted !== "worker.js") throw new TypeError(`${wanted} is no script of this page`);
      return new URL(wanted, import.meta.url).href;
    },
  });
  return policy ? policy.createScriptURL(address) : new URL(address, import.meta.url).href;
}

interface TrustedTypeFactory {
  createPolicy(name: string, rules: { createScriptURL(address: string): string }): { createScriptURL(address: string): string };
}
