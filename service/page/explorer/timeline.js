/** The schedule's timeline: what each queue does when. */

import { draw, drawFigure, write } from "../dom.js";
import { findUnit, listTicks, showNumber, showSeconds, showWhole } from "../units.js";
import { findColours } from "../palette.js";

const LEFT = 70;
const LANE = 30;
const TOP = 4;
const MOST_SPANS = 400;

/** The drawing of a plan's queues. */
export function drawTimeline(plan, queues, width) {
  const colours = findColours();
  const end = queues.reduce((last, { spans }) => Math.max(last, spans.at(-1)?.end ?? 0), 0);
  const height = TOP + queues.length * LANE + 34;
  const figure = drawFigure(width, height, tellTimeline(plan, queues));
  const x = (seconds) => LEFT + (seconds / end) * (width - LEFT - 12);
  const bottom = TOP + queues.length * LANE;
  const { size, unit } = findUnit(end);
  for (const tick of listTicks(0, end / size, Math.max(3, Math.floor(width / 120)))) {
    const at = x(tick * size);
    const style = { "text-anchor": "middle", fill: colours.faint };
    figure.append(
      draw("line", { x1: at, x2: at, y1: TOP, y2: bottom, stroke: colours.line }),
      write(at, bottom + 16, showNumber(tick), style),
    );
  }
  figure.append(
    write(width - 12, height - 2, unit === "s" ? "seconds" : unit, {
      "text-anchor": "end",
      fill: colours.faint,
    }),
  );
  queues.forEach(({ name, spans }, lane) => {
    const y = TOP + lane * LANE;
    figure.append(
      write(LEFT - 10, y + LANE / 2 + 4, name, { "text-anchor": "end", fill: colours.text }),
    );
    for (const span of mergeClose(spans, end / (width - LEFT))) {
      const wide = Math.max(0.6, x(span.end) - x(span.begin) - 0.6);
      const bar = {
        x: x(span.begin),
        y: y + 4,
        width: wide,
        height: LANE - 8,
        rx: 1.5,
        fill: colours[name],
      };
      figure.append(draw("rect", bar, draw("title", {}, tellSpan(name, span))));
    }
  });
  return figure;
}

/** Spans that can be told apart: those that begin within a pixel of the last one's end join it. */
function mergeClose(spans, pixelSeconds) {
  if (spans.length < MOST_SPANS) return spans;
  const merged = [];
  for (const span of spans) {
    const last = merged.at(-1);
    if (last !== undefined && span.begin - last.end < pixelSeconds) last.end = span.end;
    else merged.push({ ...span, step: null });
  }
  return merged;
}

/** What a span does, in words, without its time. */
export function nameSpan(queue, { step }) {
  if (step === null) return queue;
  const rows = `rows ${showWhole(step.firstRow)} to ${showWhole(step.firstRow + step.rows - 1)}`;
  return `${queue}, ${rows}, ${showWhole(step.columns)} columns, depth ${showWhole(step.depth)}`;
}

function tellSpan(queue, span) {
  return `${nameSpan(queue, span)}: ${showSeconds(span.begin)} to ${showSeconds(span.end)}`;
}

/** The queues in words: for how much of the time each is at work. */
export function tellTimeline(plan, queues) {
  const total = plan.totalSeconds;
  const parts = queues.map(({ name, spans }) => {
    const busy = spans.reduce((sum, span) => sum + span.end - span.begin, 0);
    return `${name} ${Math.round((100 * busy) / total)}%`;
  });
  return `At work of ${showSeconds(total)}: ${parts.join(", ")}.`;
}
