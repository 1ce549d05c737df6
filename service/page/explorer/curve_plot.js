/** The drawing of seconds over F: the GPU's staircase, the CPU's line, and what was measured. */

import { drawChart } from "../chart.js";
import { draw, make, write } from "../dom.js";
import { findUnit, showSeconds, showWhole } from "../units.js";
import { findMost, listPoints } from "./curve_points.js";
import { tellRefused } from "./words.js";

/** The drawing and its legend; a click calls `onPick(f)`. */
export function drawCurve({ width, plan, chosen, range, sweep, guess, hidesChoice, onPick }) {
  const most = findMost(plan, chosen, range, sweep);
  const points = listPoints(plan, most);
  const isNear = range === "near" && plan.hasGpu;
  const [from, to] = isNear
    ? findNearSeconds(plan, points, most, sweep)
    : [0, Math.max(...points.map((point) => point.total_seconds)) * 1.04];
  const { size, unit } = findUnit(to);
  const chart = drawChart({
    width,
    height: Math.round(Math.min(360, Math.max(260, width * 0.72))),
    label: describe(plan, most),
    x: { name: "F: rows that the CPU computes", range: [0, most], isWhole: true },
    y: {
      name: `${unit === "s" ? "seconds" : unit}${from > 0 ? ", axis not from 0" : ""}`,
      range: [from / size, to / size],
    },
    series: listSeries(plan, points, sweep, size),
  });
  const { figure, area, legend } = chart;
  const place = { x: chart.place.x, y: (seconds) => chart.place.y(seconds / size) };
  markPlan(figure, area, place, plan, width);
  if (sweep) area.append(drawLine(place, guess, "measured", { "stroke-dasharray": "2 4" }));
  if (!hidesChoice) legend.append(...markChoice(figure, area, place, chosen, from));
  if (plan.hasGpu) // else F can only be M
    figure.addEventListener("click", (event) => {
      const at = event.clientX - figure.getBoundingClientRect().left;
      const share = (at - place.x(0)) / (place.x(most) - place.x(0));
      onPick(Math.round(Math.min(1, Math.max(0, share)) * most));
    });
  return [figure, legend];
}

function nameGpus({ gpuParts }) {
  return gpuParts.length > 1 ? `${gpuParts.length} GPUs together` : "GPU";
}

function describe(plan, most) {
  const [gpu, cpu] = [plan.predicted.gpu_seconds, plan.predicted.cpu_seconds].map(showSeconds);
  const parts = `${nameGpus(plan)} ${gpu}, CPU ${cpu}`;
  return `Seconds over F, 0 to ${showWhole(most)}; at F = ${showWhole(plan.f)}: ${parts}`;
}

/** The range of seconds around those of the GPUs, of the plan, and of measured points. */
function findNearSeconds(plan, points, most, sweep) {
  const alone = plan.curve[0].gpu_seconds;
  const shown = (sweep?.curve ?? []).filter(([f]) => f <= most).map(([, seconds]) => seconds);
  const nearby = shown.filter((seconds) => seconds < 1.5 * alone);
  const low = Math.min(...points.map((point) => point.total_seconds), ...shown);
  const own = points.map((point) => point.gpu_seconds);
  const high = Math.max(plan.predicted.total_seconds, ...own, ...nearby);
  const to = high + 0.12 * (high - low) + 0.02 * high;
  return [Math.max(0, low - 0.35 * (high - low) - 0.03 * low), to];
}

/** The curves, the longer of both as a broad line below the others, and measured points as rings. */
function listSeries(plan, points, sweep, size) {
  const list = (name) => points.map((point) => [point.f, point[name] / size]);
  const gpu = { stroke: "var(--gpu)", "stroke-dasharray": "" };
  const total = { ...gpu, stroke: "var(--text)", "stroke-width": 5, "stroke-opacity": 0.18 };
  const cpu = { stroke: "var(--cpu)", "stroke-dasharray": "7 3" };
  const ring = { r: 3.5, fill: "none", stroke: "var(--measured)", "stroke-width": 2 };
  const tell = (f, seconds) => `measured: F = ${showWhole(f)}, ${showSeconds(seconds)}`;
  const measured = (sweep?.curve ?? []).map(([f, seconds]) => [f, seconds / size, tell(f, seconds)]);
  const series = [{ name: "CPU", kind: "line", points: list("cpu_seconds"), style: cpu }];
  if (plan.hasGpu)
    series.unshift(
      { name: "the longer of both", kind: "steps after", points: list("total_seconds"), style: total },
      { name: nameGpus(plan), kind: "steps after", points: list("gpu_seconds"), style: gpu },
    );
  if (sweep) series.push({ name: "measured", kind: "points", points: measured, style: ring });
  return series;
}

/** A vertical line at an F, longer than the area. */
function drawLine({ x }, f, colour, style) {
  const line = { x1: x(f), x2: x(f), y1: 0, y2: 2000, "stroke-width": 2 };
  return draw("line", { ...line, stroke: `var(--${colour})`, ...style });
}

function markPlan(figure, area, place, plan, width) {
  const [x, y] = [place.x(plan.f), place.y(plan.predicted.total_seconds)];
  area.append(
    drawLine(place, plan.f, "text", { "stroke-width": 1 }),
    draw("circle", { cx: x, cy: y, r: 5, fill: "var(--text)" }),
  );
  const style = { fill: "var(--text)", "text-anchor": "end", "font-weight": 600 };
  const text = `F = ${showWhole(plan.f)}: ${showSeconds(plan.predicted.total_seconds)}`;
  figure.append(write(width - 14, 13, text, style));
}

/** A mark of the model's choice below the axis, one at a refused split; returns their keys. */
function markChoice(figure, area, { x, y }, chosen, from) {
  const key = (textContent) => make("span", { className: "key", textContent });
  const tip = { d: `M${x(chosen.f)} ${y(from)}l-6 10h12Z`, fill: "var(--text)" };
  figure.append(draw("path", tip, draw("title", {}, "the model's choice")));
  const { refused } = chosen;
  if (!refused) return [key("▲ the model's choice")];
  const at = `M${x(refused.f)} ${y(refused.seconds)}`;
  const rhomb = { d: `${at}m0-7l7 7l-7 7l-7-7Z`, fill: "var(--surface)", stroke: "var(--text)" };
  const title = draw("title", {}, tellRefused(chosen));
  area.append(draw("path", { id: "refused", ...rhomb, "stroke-width": 2 }, title));
  return [key("▲ the model's choice"), key("◇ gains too little")];
}
