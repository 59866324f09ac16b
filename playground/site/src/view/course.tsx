// Usage over time: what was usual as an area, and the peak of each day or hour as a line above it, with request, recommendation
// and limit across, kills and releases as marks.

import { useState } from "preact/hooks";
import { withUnit } from "../amounts.js";
import { type Drawing, bursts, drawing } from "../drawing.js";
import type { AdviceLine, Timeline } from "../types.js";

/** So high is the drawing, whatever its size on the page. */
const HIGH = 100;

interface Drawn {
  line: AdviceLine;
  course: Timeline;
  of: Drawing;
  label: string;
  /** The step under the pointer. */
  at?: number | undefined;
}

function Drawn({ line, course, of: { peaks, area, most, lines }, label, at }: Drawn) {
  const y = (value: number) => (HIGH - (Math.min(value, most) / most) * (HIGH - 4)).toFixed(1);
  const place = (time: number) => (time - course.from) / course.step;
  const isRaise = line.recommended && line.recommended.value > (line.request?.value ?? 0);
  const marks = [
    ...course.releases.map((time) => ({ class: "release", time })),
    ...course.kills.map((time) => ({ class: "kill", time })),
  ];
  const needles = peaks.map((peak, index) => ((peak ?? 0) > area ? `M${index + 0.5} ${y(area)}V${y(peak!)}` : ""));
  return (
    <svg
      class="course"
      viewBox={`0 0 ${peaks.length} ${HIGH}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <path d={`M0 ${HIGH}${peaks.map((peak) => `V${y(Math.min(peak ?? 0, area))}h1`).join("")}V${HIGH}z`} />
      <path class="peaks" d={needles.join("")} />
      {marks.map(({ class: kind, time }) => (
        <line key={`${kind} ${time}`} class={kind} x1={place(time)} x2={place(time)} y1="0" y2={HIGH} />
      ))}
      {lines.map(({ class: kind, value, isBeyond }) => (
        <line
          key={kind}
          class={`${kind} ${kind === "recommended" && isRaise ? "raise" : ""} ${isBeyond ? "beyond" : ""}`}
          x1="0"
          x2={peaks.length}
          y1={isBeyond ? 2 : y(value)}
          y2={isBeyond ? 2 : y(value)}
        />
      ))}
      {at !== undefined && <line class="pointed" x1={at + 0.5} x2={at + 0.5} y1="0" y2={HIGH} />}
    </svg>
  );
}

/** In a row of the list; nothing where no course is known. */
export function Sparkline({ line, course }: { line: AdviceLine; course: Timeline }) {
  const of = drawing(line, course);
  if (!of) return null;
  return <Drawn line={line} course={course} of={of} label={`${line.resource}: peaks of ${of.peaks.length} days`} />;
}

const day = (time: number) =>
  new Date(time * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
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
  const amount = (value: number) => withUnit(line.resource, value);
  const point = (event: PointerEvent) => {
    const { left, width } = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const step = Math.floor(((event.clientX - left) / width) * peaks.length);
    setAt(Math.min(peaks.length - 1, Math.max(0, step)));
  };
  const peak = at === undefined ? undefined : peaks[at];
  const happened = (times: number[]) => at !== undefined && times.some((one) => one >= time(at) && one < time(at + 1));
  const told =
    at === undefined
      ? `peak of each ${each}, up to ${amount(most)}`
      : `${moment(time(at), course.step)}: ${typeof peak === "number" ? amount(peak) : "no samples"}${happened(course.kills) ? ", OOM-killed" : ""}${happened(course.releases) ? ", new version" : ""}`;
  const kills = course.kills.length > 0 ? `, ${course.kills.length} OOM kills` : "";
  const largest = amount(Math.max(...peaks.map((one) => one ?? 0)));
  const often = bursts(course, of, (time) => moment(time, course.step));
  return (
    <figure class="chart" onPointerMove={point} onPointerLeave={() => setAt(undefined)}>
      <Drawn
        line={line}
        course={course}
        of={of}
        at={at}
        label={`${line.resource}: peak of each ${each} from ${day(course.from)} to ${day(time(peaks.length))}, at most ${largest}${kills}`}
      />
      <figcaption>
        <span>{day(course.from)}</span>
        <span class="told">{told}</span>
        <span>{day(time(peaks.length - 1))}</span>
      </figcaption>
      {often !== "" && (
        <p>
          Above {amount(of.usual * 2)}, twice what is usual: {often}
        </p>
      )}
    </figure>
  );
}
