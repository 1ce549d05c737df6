/** Seconds over F: the GPU's staircase, the CPU's line, the longer of the two, and what was measured. */

import { draw, drawFigure, make, write } from "../dom.js";
import { divideUp } from "../model/arithmetic.js";
import { findRowsWithin } from "../model/scheduler/cost.js";
import { listMembers } from "../model/scheduler/team.js";
import { findUnit, listTicks, showNumber, showSeconds, showWhole } from "../units.js";
import { findColours } from "../palette.js";

const SAMPLES = 700;
const LEFT = 52;
const BOTTOM = 52;
const TOP = 44;
const RIGHT = 10;

/** The range of F that is drawn: all of it, or about the meeting of both curves. */
export function findRange(plan, chosen, range, sweep) {
  const { m } = plan.problem;
  if (range === "all" || plan.gpuCurve === null) return m;
  const alone = plan.gpuAloneCurve.seconds(m);
  const meeting = findRowsWithin(plan.cpuCurve, alone * 1.1, m);
  const most = sweep
    ? sweep.curve.reduce((far, [f, seconds]) => (seconds < alone * 1.3 ? Math.max(far, f) : far), 0)
    : 0;
  return Math.min(
    m,
    Math.max(
      16,
      Math.ceil(1.35 * meeting),
      Math.ceil(1.25 * Math.max(plan.f, chosen.f)),
      Math.ceil(1.1 * most),
    ),
  );
}

/** Points {f, gpu, cpu} over 0…`most`, dense enough for every step that can be seen. */
export function samplePoints(plan, most) {
  const wanted = new Set([0, plan.f, most]);
  for (let index = 0; index <= SAMPLES; index += 1)
    wanted.add(Math.round((index * most) / SAMPLES));
  if (plan.gpuCurve) {
    for (const f of listBoundaries(plan, most))
      for (const one of [f - 1, f]) if (one >= 0 && one <= most) wanted.add(one);
  }
  return [...wanted]
    .sort((one, other) => one - other)
    .map((f) => {
      const { gpuSeconds, cpuSeconds } = plan.predict(f);
      return { f, gpu: gpuSeconds, cpu: cpuSeconds };
    });
}

/** Each F at which a wave just becomes unnecessary, of several GPUs one of each that are alike. */
function listBoundaries({ gpuCurve, problem: { m } }, most) {
  const members = listMembers(gpuCurve);
  const { even = true, columns = [] } = gpuCurve;
  const [{ grid }] = members;
  const sharing = columns.length > 0 ? 1 : members.length; // that divide the rows
  const [waves, fewest] = [m, m - most].map((rows) => grid.countWaves(divideUp(rows, sharing)));
  if (!even || waves - fewest > SAMPLES) return [];
  const boundaries = [];
  for (let wave = Math.max(1, fewest); wave < waves; wave += 1)
    boundaries.push(m - sharing * grid.findRowsInWaves(wave));
  return boundaries;
}

/** The drawing, `room` pixels high or more; `onPick(f)` is called where it is clicked. */
export function drawCurve(asked) {
  const { plan, chosen, range, sweep, guess, hidesChoice, width, room, onPick } = asked;
  const height = Math.round(Math.max(room, Math.min(520, Math.max(260, width * 0.95))));
  const colours = findColours();
  const most = findRange(plan, chosen, range, sweep);
  const points = plan.gpuCurve ? samplePoints(plan, most) : listLine(plan);
  const scale = findScale(plan, points, range, most, width, height, sweep);
  const label = `Seconds over F, 0 to ${showWhole(most)}; at F = ${showWhole(plan.f)}: ${nameGpus(plan)} ${showSeconds(plan.predicted.gpuSeconds)}, CPU ${showSeconds(plan.predicted.cpuSeconds)}`;
  const figure = drawFigure(width, height, label);
  const clip = draw(
    "clipPath",
    { id: "plot" },
    draw("rect", {
      x: LEFT,
      y: TOP - 4,
      width: width - LEFT - RIGHT,
      height: height - TOP - BOTTOM + 4,
    }),
  );
  figure.append(draw("defs", {}, clip));
  drawAxes(figure, scale, colours);
  const area = draw("g", { "clip-path": "url(#plot)" });
  const total = points.map((point) => ({ f: point.f, total: Math.max(point.gpu, point.cpu) }));
  area.append(
    drawLine(scale, total, "total", {
      stroke: colours.total,
      "stroke-width": 5,
      "stroke-opacity": 0.18,
    }),
    drawLine(scale, points, "gpu", { stroke: colours.gpu, "stroke-width": 2 }),
    drawLine(scale, points, "cpu", {
      stroke: colours.cpu,
      "stroke-width": 2,
      "stroke-dasharray": "7 3",
    }),
  );
  drawMarks(figure, area, scale, plan, colours);
  if (!hidesChoice) markChoice(figure, scale, chosen, colours);
  if (sweep) drawSweep(area, scale, sweep, guess, colours);
  figure.append(area);
  if (onPick) {
    figure.addEventListener("click", (event) => {
      const at = event.clientX - figure.getBoundingClientRect().left;
      onPick(Math.round(Math.min(1, Math.max(0, (at - LEFT) / (width - LEFT - RIGHT))) * most));
    });
  }
  return figure;
}

/** The legend. */
export function listKeys(plan, revealed, hidesChoice) {
  const keys = [["cpu", "CPU"]];
  if (plan.gpuCurve) keys.unshift(["gpu", nameGpus(plan)]);
  if (plan.gpuCurve) keys.push(["total", "the longer of both"]);
  if (revealed) keys.push(["measured", "measured"]);
  if (!hidesChoice) keys.push(["mark-key", "▲ the model's choice"]);
  return keys.map(([name, text]) => make("span", { className: `key ${name}`, textContent: text }));
}

function nameGpus({ gpuCurve }) {
  const count = gpuCurve ? listMembers(gpuCurve).length : 1;
  return count > 1 ? `${count} GPUs together` : "GPU";
}

function listLine(plan) {
  const { m } = plan.problem;
  return [0, m].map((f) => ({ f, gpu: 0, cpu: plan.cpuAloneCurve.seconds(f) }));
}

function findScale(plan, points, range, most, width, height, sweep) {
  const alone = plan.gpuAloneCurve?.seconds(plan.problem.m) ?? plan.totalSeconds;
  const least = Math.min(...points.map((point) => Math.max(point.gpu, point.cpu)));
  let [from, to] = [0, Math.max(...points.map((point) => Math.max(point.gpu, point.cpu))) * 1.04];
  if (range === "near" && plan.gpuCurve) {
    const shown = sweep ? sweep.curve.filter(([f]) => f <= most).map(([, seconds]) => seconds) : [];
    const high = Math.max(alone, plan.totalSeconds, ...shown.filter((one) => one < 1.5 * alone));
    const low = Math.min(least, ...shown);
    to = high + 0.12 * (high - low) + 0.02 * high;
    from = Math.max(0, low - 0.35 * (high - low) - 0.03 * low);
  }
  const x = (f) => LEFT + (f / most) * (width - LEFT - RIGHT);
  const y = (seconds) =>
    height - BOTTOM - ((seconds - from) / (to - from)) * (height - TOP - BOTTOM);
  return { x, y, from, to, most, width, height };
}

function drawAxes(figure, { x, y, from, to, most, width, height }, colours) {
  const { size, unit } = findUnit(to);
  for (const tick of listTicks(from / size, to / size, 5)) {
    const at = y(tick * size);
    const line = { x1: LEFT, x2: width - RIGHT, y1: at, y2: at, stroke: colours.line };
    figure.append(draw("line", line));
    const style = { "text-anchor": "end", fill: colours.faint };
    figure.append(write(LEFT - 7, at + 4, showNumber(tick), style));
  }
  for (const tick of listTicks(0, most, Math.max(2, Math.floor(width / 110)))) {
    if (!Number.isInteger(tick)) continue;
    const style = { "text-anchor": tick === 0 ? "start" : "middle", fill: colours.faint };
    if (x(tick) < width - RIGHT - 12)
      figure.append(write(x(tick), height - BOTTOM + 26, showWhole(tick), style));
  }
  const style = { fill: colours.faint };
  const base = from > 0 ? ", axis not from 0" : "";
  figure.append(
    write(4, 13, `${unit === "s" ? "seconds" : unit}${base}`, style),
    write(width - RIGHT, height - 5, "F: rows that the CPU computes", {
      ...style,
      "text-anchor": "end",
    }),
    draw("line", { x1: LEFT, x2: width - RIGHT, y1: y(from), y2: y(from), stroke: colours.faint }),
  );
}

function drawLine({ x, y }, points, name, style) {
  // Whole rows only: the value of an F holds until the next one.
  let path = "";
  for (const point of points) {
    const [across, up] = [x(point.f).toFixed(1), y(point[name]).toFixed(1)];
    path +=
      path === "" ? `M${across} ${up}` : name === "cpu" ? `L${across} ${up}` : `H${across}V${up}`;
  }
  return draw("path", { d: path, fill: "none", "stroke-linejoin": "round", ...style });
}

function markChoice(figure, { x, y, from }, { f }, colours) {
  const at = x(f);
  const tip = { d: `M${at} ${y(from)}l-6 10h12Z`, fill: colours.text };
  figure.append(draw("path", tip, draw("title", {}, "the model's choice")));
}

function drawMarks(figure, area, { x, y, height, width }, plan, colours) {
  const at = x(plan.f);
  const line = { x1: at, x2: at, y1: TOP, y2: height - BOTTOM, stroke: colours.text };
  area.append(
    draw("line", line),
    draw("circle", { cx: at, cy: y(plan.totalSeconds), r: 5, fill: colours.text }),
  );
  const anchor = at > width * 0.7 ? "end" : at < width * 0.2 ? "start" : "middle";
  const style = { fill: colours.text, "text-anchor": anchor, "font-weight": 600 };
  const text = `F = ${showWhole(plan.f)}: ${showSeconds(plan.totalSeconds)}`;
  figure.append(write(at, 34, text, style));
}

function drawSweep(area, { x, y }, sweep, guess, colours) {
  for (const [f, seconds] of sweep.curve) {
    const circle = draw("circle", {
      cx: x(f),
      cy: y(seconds),
      r: 3.5,
      fill: "none",
      stroke: colours.measured,
      "stroke-width": 2,
    });
    circle.append(draw("title", {}, `measured: F = ${showWhole(f)}, ${showSeconds(seconds)}`));
    area.append(circle);
  }
  const line = { stroke: colours.measured, "stroke-dasharray": "2 4", "stroke-width": 2 };
  area.append(draw("line", { x1: x(guess), x2: x(guess), y1: 0, y2: 2000, ...line }));
}
