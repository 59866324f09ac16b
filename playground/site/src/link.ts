// The text of the panels, kept in the address and in the browser. Nothing is sent anywhere: the part of an address
// behind `#` stays in the browser.

import { PANELS, type Example, type Panel, type Panels, type State } from "./types.js";

const STORAGE = "headroom.page";
/** Browsers cut addresses beyond two million characters. */
const LONGEST_LINK = 1_500_000;
/** A short text can be packed to unpack to gigabytes. */
const LARGEST = 64 * 1024 * 1024;

/** Packs a state for an address: `1.` and the deflated JSON in the alphabet of addresses. */
export async function pack(state: State): Promise<string> {
  const packed = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(JSON.stringify(state)));
  let text = "";
  for (let at = 0; at < packed.length; at += 0x8000) text += String.fromCharCode(...packed.subarray(at, at + 0x8000));
  return `1.${btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

/** The state that was packed. Anything else is an error that says what is wrong. */
export async function unpack(text: string): Promise<State> {
  if (!text.startsWith("1.")) throw new Error("the link was made by another version of this page");
  let json: string;
  try {
    const bytes = Uint8Array.from(atob(text.slice(2).replaceAll("-", "+").replaceAll("_", "/")), (c) =>
      c.charCodeAt(0),
    );
    json = new TextDecoder("utf-8", { fatal: true }).decode(
      await through(new DecompressionStream("deflate-raw"), bytes),
    );
  } catch (error) {
    if (error instanceof RangeError) throw error;
    throw new Error("the link is incomplete");
  }
  return checked(JSON.parse(json));
}

function checked(value: unknown): State {
  const state = value as Partial<State> | null;
  if (typeof state !== "object" || state === null || typeof state.panels !== "object" || state.panels === null) {
    throw new Error("the link was not made by this page");
  }
  const { namespace, panels } = state;
  return { namespace: typeof namespace === "string" ? namespace : "", panels: filled((panel) => panels[panel]) };
}

/** The panels that have a text, in their order. */
export function filled(text: (panel: Panel) => unknown): Panels {
  const panels: Panels = {};
  for (const panel of PANELS) {
    const written = text(panel);
    if (typeof written === "string" && written !== "") panels[panel] = written;
  }
  return panels;
}

async function through(stream: CompressionStream | DecompressionStream, bytes: Uint8Array): Promise<Uint8Array> {
  const source = new Blob([bytes as Uint8Array<ArrayBuffer>])
    .stream()
    .pipeThrough(stream as TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>);
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  for (const reader = source.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    length += value.length;
    if (length > LARGEST) {
      await reader.cancel();
      throw new RangeError("the link holds more than 64 MiB");
    }
    parts.push(value);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

export function isTooLong(packed: string): boolean {
  return packed.length > LONGEST_LINK;
}

/** Writes the state into the address, without a new entry in the history; a state that is too long leaves none. */
export function putIntoAddress(packed: string): void {
  history.replaceState(null, "", isTooLong(packed) ? location.pathname + location.search : `#${packed}`);
}

export function keep(packed: string): void {
  try {
    localStorage.setItem(STORAGE, packed);
  } catch {
    // OK because the address has it too; storage may be full, or refused.
  }
}

function kept(): string | null {
  try {
    return localStorage.getItem(STORAGE);
  } catch {
    return null;
  }
}

/** What the page shows first. */
export interface Beginning {
  state: State;
  example?: Example;
  /** Why it is not what the address asks for. */
  problem?: string;
}

/** The address counts first, then what was written last time, then the first example. */
export async function beginning(examples: Example[]): Promise<Beginning> {
  const of = (example: Example): Beginning => ({
    state: { namespace: example.namespace, panels: filled((panel) => example.panels[panel]) },
    example,
  });
  const named = examples.find(({ name }) => location.hash === `#example=${name}`);
  if (named) return of(named);
  const linked = location.hash.slice(1);
  const packed = linked || kept();
  const first = of(examples[0]!);
  if (!packed) return first;
  try {
    return { state: await unpack(packed) };
  } catch (error) {
    // What an older page kept is no loss worth a message.
    return linked ? { ...first, problem: `The link cannot be read: ${(error as Error).message}.` } : first;
  }
}
