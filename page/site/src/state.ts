// What somebody has written, kept in the address and in the browser. Nothing is sent anywhere: the part of an address
// behind `#` stays in the browser.

import { PANELS, type Panels, type State } from "./types.js";

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
  return "1." + btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The state that was packed. Anything else is an error that says what is wrong. */
export async function unpack(text: string): Promise<State> {
  if (!text.startsWith("1.")) throw new Error("the link was made by another version of this page");
  let json: string;
  try {
    const bytes = Uint8Array.from(atob(text.slice(2).replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    json = new TextDecoder("utf-8", { fatal: true }).decode(await through(new DecompressionStream("deflate-raw"), bytes));
  } catch (error) {
    if (error instanceof RangeError) throw error;
    throw new Error("the link is incomplete");
  }
  return checked(JSON.parse(json));
}

function checked(value: unknown): State {
  const state = value as Partial<State> | null;
  if (typeof state !== "object" || state === null || typeof state.panels !== "object" || state.panels === null) {
    throw new Error("the link holds something else");
  }
  const panels: Panels = {};
  for (const panel of PANELS) {
    const text = state.panels[panel];
    if (typeof text === "string") panels[panel] = text;
  }
  return { namespace: typeof state.namespace === "string" ? state.namespace : "", panels };
}

async function through(stream: CompressionStream | DecompressionStream, bytes: Uint8Array): Promise<Uint8Array> {
  const source = new Blob([bytes as Uint8Array<ArrayBuffer>]).stream().pipeThrough(stream as TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>);
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
  history.replaceState(null, "", isTooLong(packed) ? location.pathname + location.search : "#" + packed);
}

export function keep(packed: string): void {
  try {
    localStorage.setItem(STORAGE, packed);
  } catch {
    // OK because the address has it too; storage may be full, or refused.
  }
}

export function kept(): string | null {
  try {
    return localStorage.getItem(STORAGE);
  } catch {
    return null;
  }
}
