// The engine as the page sees it: asynchronous, one call at a time.

import type { Inspection } from "./inspect.js";
import type { Answer, Call } from "./worker.js";
import type { Outcome, Overview, Replay, State, Trial } from "./types.js";

/** What a call came to, and how long the engine took. */
export interface Timed<Result> {
  result: Result;
  milliseconds: number;
}

/** So many objects are shown at a time. */
export const PAGE = 20;

/** What was asked before the page could show the answer. */
interface Early {
  question: string;
  answer: Promise<Timed<Outcome>>;
}

class Engine {
  #worker: Worker | undefined;
  #early: Early | undefined;
  #calls = new Map<number, (answer: Answer) => void>();
  #next = 0;

  /** Starts when somebody asks: a file with a cluster inside never does. */
  get #started(): Worker {
    if (this.#worker) return this.#worker;
    const worker = new Worker(trusted("worker.js"), { type: "module" });
    worker.onmessage = ({ data }: MessageEvent<Answer>) => {
      this.#calls.get(data.id)?.(data);
      this.#calls.delete(data.id);
    };
    worker.onerror = (event) => {
      const error = event.message || "the engine cannot be loaded";
      for (const [id, answer] of this.#calls) answer({ id, milliseconds: 0, error });
      this.#calls.clear();
    };
    this.#worker = worker;
    return worker;
  }

  /** Evaluates the objects, with the details of a page of them. */
  evaluate(state: State, from: number): Promise<Timed<Outcome>> {
    const play = { ...state, from, count: PAGE };
    const early = this.#early;
    this.#early = undefined;
    return early?.question === JSON.stringify(play) ? early.answer : this.#call("evaluate", play);
  }

  /** Evaluates what the page is about to ask for. */
  evaluateEarly(state: State) {
    const answer = this.evaluate(state, 0);
    // OK because who asks for it is told.
    answer.catch(() => {});
    this.#early = { question: JSON.stringify({ ...state, from: 0, count: PAGE }), answer };
  }

  async replay(state: State, row: number): Promise<Replay> {
    return (await this.#call<Replay>("replay", { ...state, from: row, count: 0 })).result;
  }

  async policy(settings: string): Promise<string> {
    return (await this.#call<string>("policy", settings)).result;
  }

  /** What the views show of a snapshot, without the engine. */
  inspect(snapshot: string): Promise<Timed<Inspection | null>> {
    return this.#call("inspect", snapshot);
  }

  /** Opens a snapshot of a cluster, in place of the one before. */
  open(snapshot: string): Promise<Timed<Overview>> {
    return this.#call("open", snapshot);
  }

  /** Evaluates everything in the open snapshot as the panels would have it. */
  simulate(state: State): Promise<Timed<Trial>> {
    return this.#call("simulate", { ...state, from: 0, count: 0 });
  }

  #call<Result>(name: Call["name"], input: unknown): Promise<Timed<Result>> {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#calls.set(id, (answer) => {
        const told: { ok: unknown } | { error: string } = "text" in answer ? JSON.parse(answer.text) : answer;
        if ("error" in told) reject(new Error(told.error));
        else resolve({ result: told.ok as Result, milliseconds: answer.milliseconds });
      });
      this.#started.postMessage({ id, name, input } satisfies Call);
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
      // A call that fails is told by its own caller, and does not stop those that follow.
      await run(next.input).catch((problem: unknown) => console.error(problem));
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
  createPolicy(
    name: string,
    rules: { createScriptURL(address: string): string },
  ): { createScriptURL(address: string): string };
}

/** The one engine of the page. */
export const engine = new Engine();
