// What is drawn of usage: its scale, what was usual, and how often it was far above that.

import type { AdviceLine, Timeline } from "./types.js";

/** All of it in thousandths. */
export interface Drawing {
  peaks: (number | null)[];
  /** What usage stays below nearly always, as far as that is known. */
  usual: number;
  /** Up to here a peak is a part of the area; what is above is a line. */
  area: number;
  /** The top of the scale. */
  most: number;
  /** Those above the scale are drawn at its top. */
  lines: { class: string; value: number; isBeyond: boolean }[];
}

/** Usage fills half of the scale at least: a request or limit far above it is beyond the scale. */
const MOST = 2;

/** The scale for some usage, and what is marked on it. */
export function scaled(
  { request, limit, recommended }: Pick<AdviceLine, "request" | "limit" | "recommended">,
  peak: number,
) {
  const inner = Math.max(1, peak, recommended?.value ?? 0);
  const within = (value: number | undefined) => (value !== undefined && value <= inner * MOST ? value : 0);
  const most = Math.max(inner, within(request?.value), within(limit?.value));
  const marked = [
    { class: "limit", value: limit?.value },
    { class: "request", value: request?.value },
    { class: "recommended", value: recommended?.value },
  ];
  const lines = marked.flatMap(({ class: kind, value }) =>
    value === undefined || (kind === "limit" && value > most) ? [] : [{ class: kind, value, isBeyond: value > most }],
  );
  return { most, lines };
}

/** A peak so near to what is usual is no burst. */
const NEAR = 1.5;

export function drawing(line: AdviceLine, course: Timeline): Drawing | undefined {
  const peaks = peaksOf(line.resource, course);
  if (peaks.length < 2) return undefined;
  const usual = line.usage.find(({ at }) => at === "p95" || at === "p90")?.value ?? Infinity;
  const limit = line.recommendedLimit ?? line.limit ?? null;
  return {
    peaks,
    usual,
    area: usual * NEAR,
    ...scaled({ ...line, limit }, Math.max(...peaks.map((peak) => peak ?? 0))),
  };
}

/** The peak of each step, in thousandths. */
export const peaksOf = (resource: string, { cpu, memory }: Timeline): (number | null)[] =>
  resource === "cpu" ? cpu : memory.map((peak) => (peak === null ? null : peak * 1024 * 1000));

const DAY = 86_400;
/** So many times what is usual is worth a word. */
const FAR = 2;

/** How often usage was far above what is usual: `once, 27 Nov`, `on 5 of 14 days`, `about 4 times a day`. */
export function bursts({ from, step }: Timeline, { peaks, usual }: Drawing, moment: (time: number) => string): string {
  const isFar = (peak: number | null | undefined) => typeof peak === "number" && peak > usual * FAR && usual > 0;
  const begins = peaks.flatMap((peak, index) => (isFar(peak) && !isFar(peaks[index - 1]) ? [index] : []));
  const far = peaks.filter(isFar).length;
  const known = peaks.filter((peak) => peak !== null).length;
  if (far === 0) return "";
  if (far === 1 || (begins.length === 1 && step < DAY)) return `once, ${moment(from + begins[0]! * step)}`;
  if (step >= DAY) return `on ${far} of ${known} days`;
  const times = Math.round(begins.length / ((known * step) / DAY));
  return times === 0 ? `${begins.length} times` : `about ${times === 1 ? "once" : `${times} times`} a day`;
}
