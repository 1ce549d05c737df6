/** The drawing of seconds over F: the GPU's staircase, the CPU's line, and what was measured. */

import { draw, drawFigure, make, write } from "../dom.js";
import { findColours } from "../palette.js";
import { findUnit, listTicks, showNumber, showSeconds, showWhole } from "../units.js";
import { findMost, listPoints } from "./curve_points.js";
import { tellRefused } from "./words.js";

const LEFT = 52;
const BOTTOM = 52;
const TOP = 44;
const RIGHT = 10;

/** The drawing; a click calls `onPick(f)`. */
export function drawCurve({ width, plan, chosen, range, sweep, guess, hidesChoice, onPick }) {
  const height = Math.round(Math.min(360, Math.max(260, width * 0.72)));
  const colours = findColours();
  const most = findMost(plan, chosen, range, sweep);
  const points = listPoints(plan, most);
  const scale = findScale({ plan, points, range, most, width, height, sweep });
  const figure = drawFigure(width, height, describe(plan, most));
  figure.append(draw("defs", {}, clipPlot(scale)));
  drawAxes(figure, scale, colours);
  const area = draw("g", { "clip-path": "url(#plot)" }, ...drawLines(scale, points, colours));
  markPlan(figure, area, scale, plan, colours);
  if (!hidesChoice) markChoice(figure, area, scale, chosen, colours);
  if (sweep) drawSweep(area, scale, sweep, guess, colours);
  figure.append(area);
  if (!plan.hasGpu) return figure; // F can only be M
  figure.addEventListener("click", (event) => {
    const at = event.clientX - figure.getBoundingClientRect().left;
    const share = (at - LEFT) / (width - LEFT - RIGHT);
    onPick(Math.round(Math.min(1, Math.max(0, share)) * most));
  });
  return figure;
}

/** The legend. */
export function listKeys(plan, chosen, isRevealed, hidesChoice) {
  const keys = [["cpu", "CPU"]];
  if (plan.hasGpu) keys.unshift(["gpu", nameGpus(plan)]);
  if (plan.hasGpu) keys.push(["total", "the longer of both"]);
  if (isRevealed) keys.push(["measured", "measured"]);
  if (!hidesChoice) keys.push(["mark-key", "▲ the model's choice"]);
  if (!hidesChoice && chosen.refused) keys.push(["mark-key", "◇ gains too little"]);
  return keys.map(([name, text]) => make("span", { className: `key ${name}`, textContent: text }));
}

function nameGpus({ gpuParts }) {
  return gpuParts.length > 1 ? `${gpuParts.length} GPUs together` : "GPU";
}

function describe(plan, most) {
  const { gpuSeconds, cpuSeconds } = plan.predicted;
  const parts = `${nameGpus(plan)} ${showSeconds(gpuSeconds)}, CPU ${showSeconds(cpuSeconds)}`;
  return `Seconds over F, 0 to ${showWhole(most)}; at F = ${showWhole(plan.f)}: ${parts}`;
}

/** The functions from F and seconds to pixels, and the range of seconds. */
function findScale({ plan, points, range, most, width, height, sweep }) {
  const isNear = range === "near" && plan.hasGpu;
  const [from, to] = isNear
    ? findNearSeconds(plan, points, most, sweep)
    : [0, Math.max(...points.map(findTotal)) * 1.04];
  const x = (f) => LEFT + (f / most) * (width - LEFT - RIGHT);
  const y = (seconds) =>
    height - BOTTOM - ((seconds - from) / (to - from)) * (height - TOP - BOTTOM);
  return { x, y, from, to, most, width, height };
}

function findTotal({ gpu, cpu }) {
  return Math.max(gpu, cpu);
}

/** The range of seconds around those of the GPUs, of the plan, and of measured points. */
function findNearSeconds(plan, points, most, sweep) {
  const alone = plan.curve[0].gpu;
  const shown = (sweep?.curve ?? []).filter(([f]) => f <= most).map(([, seconds]) => seconds);
  const nearby = shown.filter((seconds) => seconds < 1.5 * alone);
  const low = Math.min(...points.map(findTotal), ...shown);
  const high = Math.max(plan.totalSeconds, ...points.map(({ gpu }) => gpu), ...nearby);
  const to = high + 0.12 * (high - low) + 0.02 * high;
  return [Math.max(0, low - 0.35 * (high - low) - 0.03 * low), to];
}

function clipPlot({ width, height }) {
  const size = { width: width - LEFT - RIGHT, height: height - TOP - BOTTOM + 4 };
  return draw("clipPath", { id: "plot" }, draw("rect", { x: LEFT, y: TOP - 4, ...size }));
}

function drawAxes(figure, { x, y, from, to, most, width, height }, colours) {
  const text = { fill: colours.faint };
  const { size, unit } = findUnit(to);
  for (const tick of listTicks(from / size, to / size, 5)) {
    const at = y(tick * size);
    const line = { x1: LEFT, x2: width - RIGHT, y1: at, y2: at, stroke: colours.line };
    const label = write(LEFT - 7, at + 4, showNumber(tick), { ...text, "text-anchor": "end" });
    figure.append(draw("line", line), label);
  }
  for (const tick of listTicks(0, most, Math.max(2, Math.floor(width / 110)))) {
    if (!Number.isInteger(tick) || x(tick) >= width - RIGHT - 12) continue;
    const style = { ...text, "text-anchor": tick === 0 ? "start" : "middle" };
    figure.append(write(x(tick), height - BOTTOM + 26, showWhole(tick), style));
  }
  const base = from > 0 ? ", axis not from 0" : "";
  const end = { ...text, "text-anchor": "end" };
  const axis = { x1: LEFT, x2: width - RIGHT, y1: y(from), y2: y(from), stroke: colours.faint };
  figure.append(
    write(4, 13, `${unit === "s" ? "seconds" : unit}${base}`, text),
    write(width - RIGHT, height - 5, "F: rows that the CPU computes", end),
    draw("line", axis),
  );
}

/** The curves: the longer of both as a broad line below the GPU's and the CPU's. */
function drawLines(scale, points, colours) {
  const totals = points.map((point) => ({ f: point.f, total: findTotal(point) }));
  const broad = { stroke: colours.total, "stroke-width": 5, "stroke-opacity": 0.18 };
  const dashed = { stroke: colours.cpu, "stroke-width": 2, "stroke-dasharray": "7 3" };
  return [
    drawLine(scale, totals, "total", broad),
    drawLine(scale, points, "gpu", { stroke: colours.gpu, "stroke-width": 2 }),
    drawLine(scale, points, "cpu", dashed),
  ];
}

/** One curve: the CPU's by straight lines, the others by steps. */
function drawLine({ x, y }, points, name, style) {
  let path = "";
  for (const point of points) {
    const [across, up] = [x(point.f).toFixed(1), y(point[name]).toFixed(1)];
    path +=
      path === "" ? `M${across} ${up}` : name === "cpu" ? `L${across} ${up}` : `H${across}V${up}`;
  }
  return draw("path", { d: path, fill: "none", "stroke-linejoin": "round", ...style });
}

/** A mark of the model's choice below the axis, and one at the F and seconds of a refused split. */
function markChoice(figure, area, { x, y, from }, chosen, colours) {
  const tip = { d: `M${x(chosen.f)} ${y(from)}l-6 10h12Z`, fill: colours.text };
  figure.append(draw("path", tip, draw("title", {}, "the model's choice")));
  const { refused } = chosen;
  if (!refused) return;
  const at = `M${x(refused.f)} ${y(refused.seconds)}`;
  const rhomb = { d: `${at}m0-7l7 7l-7 7l-7-7Z`, fill: colours.surface, stroke: colours.text };
  const title = draw("title", {}, tellRefused(chosen));
  area.append(draw("path", { id: "refused", ...rhomb, "stroke-width": 2 }, title));
}

function markPlan(figure, area, { x, y, height, width }, plan, colours) {
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

/** The measured points, and a line at the guess. */
function drawSweep(area, { x, y }, sweep, guess, colours) {
  const ring = { r: 3.5, fill: "none", stroke: colours.measured, "stroke-width": 2 };
  for (const [f, seconds] of sweep.curve) {
    const circle = draw("circle", { cx: x(f), cy: y(seconds), ...ring });
    circle.append(draw("title", {}, `measured: F = ${showWhole(f)}, ${showSeconds(seconds)}`));
    area.append(circle);
  }
  const line = { stroke: colours.measured, "stroke-dasharray": "2 4", "stroke-width": 2 };
  area.append(draw("line", { x1: x(guess), x2: x(guess), y1: 0, y2: 2000, ...line }));
}
