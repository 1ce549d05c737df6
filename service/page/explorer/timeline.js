/** The schedule's timeline: what each queue does when. */

import { draw, drawFigure, write } from "../dom.js";
import { findUnit, listTicks, showNumber, showSeconds, showWhole } from "../units.js";
import { findColours } from "../palette.js";
import { groupParts, nameGpu, nameGroup } from "./team_words.js";

const LEFT = 70;
const LANE = 30;
const THIN_LANE = 20;
const HEADING = 20;
const TOP = 4;
const MOST_SPANS = 400;

/** The drawing of a plan's queues, those of each of several GPUs under its name. */
export function drawTimeline(plan, queues, width) {
  const colours = findColours();
  const end = queues.reduce((last, { spans }) => Math.max(last, spans.at(-1)?.end ?? 0), 0);
  const { lanes, bottom, lane } = placeLanes(plan, queues);
  const figure = drawFigure(width, bottom + 34, tellTimeline(plan, queues));
  const x = (seconds) => LEFT + (seconds / end) * (width - LEFT - 12);
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
    write(width - 12, bottom + 32, unit === "s" ? "seconds" : unit, {
      "text-anchor": "end",
      fill: colours.faint,
    }),
  );
  for (const { queue, y, heading } of lanes) {
    const { name, kind, spans } = queue;
    if (heading) {
      const ground = { x: 0, y: y - HEADING + 2, width: 60, height: HEADING - 2, fill: colours.surface };
      const style = { fill: colours.text, "font-weight": 600 };
      figure.append(draw("rect", ground), write(0, y - 5, heading, style));
    }
    figure.append(
      write(LEFT - 10, y + lane / 2 + 4, kind, { "text-anchor": "end", fill: colours.text }),
    );
    for (const span of mergeClose(spans, end / (width - LEFT))) {
      const wide = Math.max(0.6, x(span.end) - x(span.begin) - 0.6);
      const edge = lane === LANE ? 4 : 2;
      const bar = {
        x: x(span.begin),
        y: y + edge,
        width: wide,
        height: lane - 2 * edge,
        rx: 1.5,
        fill: colours[kind],
      };
      figure.append(draw("rect", bar, draw("title", {}, tellSpan(name, span))));
    }
  }
  return figure;
}

/** Where each queue is drawn: with a heading above the first of each GPU where there are several. */
function placeLanes(plan, queues) {
  const several = plan.gpuParts.length > 1;
  const lane = several ? THIN_LANE : LANE;
  let y = TOP;
  const lanes = queues.map((queue, index) => {
    const isFirst = several && queue.part !== queues[index - 1]?.part;
    const heading = isFirst && queue.part ? nameGpu(plan, queue.part) : null;
    if (isFirst) y += queue.part ? HEADING : HEADING / 2;
    const at = { queue, y, heading };
    y += lane;
    return at;
  });
  return { lanes, bottom: y, lane };
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

/** The queues in words: for how much of the time each is at work; GPUs that are equal together. */
export function tellTimeline(plan, queues) {
  const total = plan.totalSeconds;
  const tell = (part) =>
    queues
      .filter((queue) => queue.part === part)
      .map(({ kind, spans }) => {
        const busy = spans.reduce((sum, span) => sum + span.end - span.begin, 0);
        return `${kind} ${Math.round((100 * busy) / total)}%`;
      })
      .join(", ");
  const groups = groupParts(plan.gpuParts, tell);
  const several = plan.gpuParts.length > 1;
  const gpus = groups.map((parts) => {
    const whose = several ? `${nameGroup(plan, parts)}: ` : "";
    return whose + tell(parts[0]);
  });
  const told = plan.f ? [...gpus, tell(null)] : gpus;
  return `At work of ${showSeconds(total)}: ${told.join(several ? "; " : ", ")}.`;
}
