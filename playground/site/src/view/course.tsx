// Usage over time: a step for each day or hour, with request, recommendation and limit as lines, kills and releases as marks.

import { useState } from "preact/hooks";
import { withUnit } from "../amounts.js";
import type { AdviceLine, Timeline } from "../types.js";

/** What is drawn of one resource, all of it in thousandths. */
interface Drawing {
  peaks: (number | null)[];
  most: number;
  lines: { class: string; value: number }[];
}

function drawing(line: AdviceLine, course: Timeline): Drawing | undefined {
  const isCpu = line.resource === "cpu";
  const peaks = (isCpu ? course.cpu : course.memory).map((peak) =>
    peak === null || isCpu ? peak : peak * 1024 * 1000,
  );
  if (peaks.length < 2) return undefined;
  const limit = line.recommendedLimit ?? line.limit;
  const inner = Math.max(1, ...peaks.map((peak) => peak ?? 0), line.request?.value ?? 0, line.recommended?.value ?? 0);
  // A limit far above everything else would press the rest into the ground.
  const lines = [
    { class: "limit", value: limit && limit.value <= inner * 3 ? limit.value : undefined },
    { class: "request", value: line.request?.value },
    { class: "recommended", value: line.recommended?.value },
  ];
  const known = lines.filter((one): one is { class: string; value: number } => one.value !== undefined);
  return { peaks, most: Math.max(inner, ...known.map(({ value }) => value)), lines: known };
}

/** So high is the drawing, whatever its size on the page. */
const HIGH = 100;

function Drawn({
  line,
  course,
  of: { peaks, most, lines },
  label,
  at,
}: {
  line: AdviceLine;
  course: Timeline;
  of: Drawing;
  label: string;
  at?: number | undefined;
}) {
  const y = (value: number) => HIGH - (value / most) * (HIGH - 4);
  const place = (time: number) => (time - course.from) / course.step;
  const isRaise = line.recommended && line.recommended.value > (line.request?.value ?? 0);
  const marks = [
    ...course.releases.map((time) => ({ class: "release", time })),
    ...course.kills.map((time) => ({ class: "kill", time })),
  ];
  return (
    <svg
      class="course"
      viewBox={`0 0 ${peaks.length} ${HIGH}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <path d={`M0 ${HIGH}${peaks.map((peak) => `V${y(peak ?? 0).toFixed(1)}h1`).join("")}V${HIGH}z`} />
      {marks.map(({ class: kind, time }) => (
        <line key={`${kind} ${time}`} class={kind} x1={place(time)} x2={place(time)} y1="0" y2={HIGH} />
      ))}
      {lines.map((one) => (
        <line
          key={one.class}
          class={`${one.class} ${one.class === "recommended" && isRaise ? "raise" : ""}`}
          x1="0"
          x2={peaks.length}
          y1={y(one.value)}
          y2={y(one.value)}
        />
      ))}
      {at !== undefined && <line class="pointed" x1={at + 0.5} x2={at + 0.5} y1="0" y2={HIGH} />}
    </svg>
  );
}

/** In a row of the list; nothing where no course is known. */
export function Sparkline({ line, course }: { line: AdviceLine | undefined; course: Timeline | undefined }) {
  const of = line && course && drawing(line, course);
  return of ? (
    <Drawn line={line} course={course} of={of} label={`${line.resource}: peaks of ${of.peaks.length} days`} />
  ) : null;
}

const day = (time: number) =>
  new Date(time * 1000).toLocaleDateString("en", { day: "numeric", month: "short", timeZone: "UTC" });
const moment = (time: number, step: number) =>
  step >= 86_400 ? day(time) : `${day(time)}, ${new Date(time * 1000).toISOString().slice(11, 16)} UTC`;

/** In the details: with its scale, the days below it, and what is under the pointer. */
export function Chart({ line, course }: { line: AdviceLine; course: Timeline }) {
  const [at, setAt] = useState<number>();
  const of = drawing(line, course);
  if (!of) return null;
  const { peaks, most } = of;
  const each = course.step >= 86_400 ? "day" : "hour";
  const time = (step: number) => course.from + step * course.step;
  const point = (event: PointerEvent) => {
    const { left, width } = (event.currentTarget as HTMLElement).getBoundingClientRect();
    setAt(Math.min(peaks.length - 1, Math.max(0, Math.floor(((event.clientX - left) / width) * peaks.length))));
  };
  const peak = at === undefined ? undefined : peaks[at];
  const happened = (times: number[]) => at !== undefined && times.some((one) => one >= time(at) && one < time(at + 1));
  const told =
    at === undefined
      ? `peak of each ${each}, up to ${withUnit(line.resource, most)}`
      : `${moment(time(at), course.step)}: ${peak === null || peak === undefined ? "no samples" : withUnit(line.resource, peak)}${happened(course.kills) ? ", OOM-killed" : ""}${happened(course.releases) ? ", new version" : ""}`;
  return (
    <figure class="chart" onPointerMove={point} onPointerLeave={() => setAt(undefined)}>
      <Drawn
        line={line}
        course={course}
        of={of}
        at={at}
        label={`${line.resource}: peak of each ${each} from ${day(course.from)} to ${day(time(peaks.length))}, at most ${withUnit(line.resource, Math.max(...peaks.map((one) => one ?? 0)))}${course.kills.length > 0 ? `, ${course.kills.length} OOM kills` : ""}`}
      />
      <figcaption>
        <span>{day(course.from)}</span>
        <span class="told">{told}</span>
        <span>{day(time(peaks.length - 1))}</span>
      </figcaption>
    </figure>
  );
}
