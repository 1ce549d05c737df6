/** The timeline of a plan: when each queue is busy. */

import { draw, drawFigure, write } from "../dom.js";
import { findUnit, listTicks, showNumber, showSeconds, showWhole } from "../units.js";
import { groupParts, nameGpu, nameGroup } from "./team_words.js";

const LEFT = 70;
const RIGHT = 12;
const TOP = 4;
const TRACK = 30; // the height of a queue's track
const THIN_TRACK = 20; // the same with several GPUs
const HEADING = 20;

/** The drawing: a track for each queue, with several GPUs below the name of its GPU. */
export function drawTimeline(plan, width) {
  const { queues } = plan;
  const end = queues.reduce((last, { spans }) => Math.max(last, spans.at(-1)?.end_seconds ?? 0), 0);
  const { tracks, bottom, trackHeight } = placeTracks(plan);
  const figure = drawFigure(width, bottom + 34, tellTimeline(plan));
  const x = (seconds) => LEFT + (seconds / end) * (width - LEFT - RIGHT);
  drawTicks(figure, { x, end, bottom, width });
  for (const { queue, y, heading } of tracks) {
    if (heading) drawHeading(figure, heading, y);
    const label = { "text-anchor": "end", fill: "var(--text)" };
    figure.append(write(LEFT - 10, y + trackHeight / 2 + 4, queue.kind, label));
    const edge = trackHeight === TRACK ? 4 : 2;
    for (const span of queue.spans) {
      const bar = {
        x: x(span.begin_seconds),
        y: y + edge,
        width: Math.max(0.6, x(span.end_seconds) - x(span.begin_seconds) - 0.6),
        height: trackHeight - 2 * edge,
        rx: 1.5,
        fill: `var(--${queue.kind.toLowerCase().replace(" ", "-")})`,
      };
      figure.append(draw("rect", bar, draw("title", {}, tellSpan(queue.name, span))));
    }
  }
  return figure;
}

/** The position of each queue's track; with several GPUs the first of each has a heading. */
function placeTracks({ queues, gpuParts }) {
  const several = gpuParts.length > 1;
  const trackHeight = several ? THIN_TRACK : TRACK;
  let y = TOP;
  const tracks = queues.map((queue, index) => {
    const isFirst = several && queue.part !== queues[index - 1]?.part;
    const heading = isFirst && queue.part ? nameGpu(queue.part) : null;
    if (isFirst) y += queue.part ? HEADING : HEADING / 2;
    const track = { queue, y, heading };
    y += trackHeight;
    return track;
  });
  return { tracks, bottom: y, trackHeight };
}

function drawTicks(figure, { x, end, bottom, width }) {
  const { size, unit } = findUnit(end);
  for (const tick of listTicks(0, end / size, Math.max(3, Math.floor(width / 120)))) {
    const at = x(tick * size);
    const style = { "text-anchor": "middle", fill: "var(--faint)" };
    figure.append(
      draw("line", { x1: at, x2: at, y1: TOP, y2: bottom, stroke: "var(--line)" }),
      write(at, bottom + 16, showNumber(tick), style),
    );
  }
  const style = { "text-anchor": "end", fill: "var(--faint)" };
  figure.append(write(width - RIGHT, bottom + 32, unit === "s" ? "seconds" : unit, style));
}

/** The name of a GPU above its first track; its background hides the lines of the ticks. */
function drawHeading(figure, heading, y) {
  const ground = { x: 0, y: y - HEADING + 2, width: 60, height: HEADING - 2 };
  const style = { fill: "var(--text)", "font-weight": 600 };
  figure.append(
    draw("rect", { ...ground, fill: "var(--surface)" }),
    write(0, y - 5, heading, style),
  );
}

/** A span in words, without its time; the queue's name if it covers several steps. */
export function nameSpan(queue, { first_row: first, rows, columns, depth }) {
  if (rows === null) return queue;
  const named = `rows ${showWhole(first)} to ${showWhole(first + rows - 1)}`;
  return `${queue}, ${named}, ${showWhole(columns)} columns, depth ${showWhole(depth)}`;
}

function tellSpan(queue, span) {
  return `${nameSpan(queue, span)}: ${showSeconds(span.begin_seconds)} to ${showSeconds(span.end_seconds)}`;
}

/** The timeline in words: the share of the time in which each queue is busy. */
export function tellTimeline(plan) {
  const { queues, predicted } = plan;
  const total = predicted.total_seconds;
  const tell = (part) =>
    queues
      .filter((queue) => queue.part === part)
      .map(({ kind, spans }) => `${kind} ${Math.round((100 * countBusySeconds(spans)) / total)}%`)
      .join(", ");
  const groups = groupParts(plan.gpuParts, tell);
  const several = plan.gpuParts.length > 1;
  const gpus = groups.map((parts) => {
    const whose = several ? `${nameGroup(parts)}: ` : "";
    return whose + tell(parts[0]);
  });
  const told = plan.f ? [...gpus, tell(null)] : gpus;
  return `Busy in these ${showSeconds(total)}: ${told.join(several ? "; " : ", ")}.`;
}

/** Seconds in which a queue is busy. */
export function countBusySeconds(spans) {
  return spans.reduce((sum, span) => sum + span.end_seconds - span.begin_seconds, 0);
}
