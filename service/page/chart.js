/** A chart: curves over linear or logarithmic axes, with a legend. */

import { draw, drawFigure, make, write } from "./dom.js";
import { findColours, listCurveColours } from "./palette.js";
import { listTicks, showNumber } from "./units.js";

const LEFT = 56;
const RIGHT = 14;
const TOP = 26;
const BOTTOM = 46;
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "12 4", "4 4", "1 4", "14 3 3 3", "6 2"];

/** The chart, {figure, legend}.
 *
 * `series` are {name, points, kind, faint}, kind being "line", "steps" or "points". Points are
 * [x, y] or [x, y, title]. `x` and `y` are axes, {name, log}.
 */
export function drawChart({ width, height, label, x, y, series }) {
  const colours = findColours();
  const figure = drawFigure(width, height, label);
  const shown = series.flatMap(({ points }) => points);
  const [xRange, yRange] = [x, y].map((axis, index) =>
    findRange(
      axis,
      shown.map((point) => point[index]),
    ),
  );
  const place = {
    x: makeScale(x, xRange, LEFT, width - RIGHT),
    y: makeScale(y, yRange, height - BOTTOM, TOP),
  };
  drawGrid(figure, { x, y, xRange, yRange, place, width, height, colours });
  const curves = listCurveColours();
  let drawn = 0;
  const keys = [];
  for (const one of series) {
    const index = one.faint ? null : drawn++;
    const colour = one.faint ? colours.faint : curves[index % curves.length];
    const dash = one.kind === "points" || one.faint ? "" : DASHES[index % DASHES.length];
    figure.append(drawCurve(one, place, colour, dash));
    if (one.name) keys.push(makeKey(one, colour, dash));
  }
  return { figure, legend: make("p", { className: "caption legend" }, ...keys) };
}

/** The range of an axis: a little wider than its values, from 0 if it is linear. */
function findRange({ log }, values) {
  const positive = log ? values.filter((value) => value > 0) : values;
  const [low, high] = [Math.min(...positive), Math.max(...positive)];
  if (log) return [low / 1.15, high * 1.25];
  return [Math.min(0, low), high * 1.06 || 1];
}

/** The function from an axis's values to pixels between `begin` and `end`. */
function makeScale({ log }, [from, to], begin, end) {
  const place = log ? Math.log10 : (value) => value;
  const [low, high] = [place(from), place(to)];
  return (value) => begin + ((place(value) - low) / (high - low || 1)) * (end - begin);
}

function drawGrid(figure, { x, y, xRange, yRange, place, width, height, colours }) {
  const text = { fill: colours.faint };
  for (const tick of listAxisTicks(y, yRange, 5)) {
    const at = place.y(tick);
    figure.append(
      draw("line", { x1: LEFT, x2: width - RIGHT, y1: at, y2: at, stroke: colours.line }),
      write(LEFT - 7, at + 4, showTick(tick), { ...text, "text-anchor": "end" }),
    );
  }
  for (const tick of listAxisTicks(x, xRange, Math.max(2, Math.floor(width / 95)))) {
    const at = place.x(tick);
    figure.append(
      draw("line", { x1: at, x2: at, y1: TOP, y2: height - BOTTOM, stroke: colours.line }),
      write(at, height - BOTTOM + 17, showTick(tick), { ...text, "text-anchor": "middle" }),
    );
  }
  figure.append(
    write(6, 13, y.name, text),
    write(width - RIGHT, height - 8, x.name, { ...text, "text-anchor": "end" }),
  );
}

/** About `count` ticks: round numbers, or on a logarithmic axis powers of 2 or 10. */
function listAxisTicks({ log }, [from, to], count) {
  if (!log) return listTicks(from, to, count);
  const decades = Math.log10(to / from);
  const base = decades > 2 ? 10 : 2;
  const step = Math.ceil(decades / Math.log10(base) / (count + 2));
  const first = Math.ceil(Math.log(from) / Math.log(base) - 1e-9);
  const ticks = [];
  for (let power = first; base ** power <= to; power += step) ticks.push(base ** power);
  return ticks;
}

const BINARY_PREFIXES = [
  [2 ** 30, "Gi"],
  [2 ** 20, "Mi"],
  [2 ** 10, "Ki"],
];

function showTick(value) {
  const isWhole = ([size]) => value >= size && value % size === 0;
  const [size, prefix] = BINARY_PREFIXES.find(isWhole) ?? [1, ""];
  return showNumber(value / size) + prefix;
}

function drawCurve(series, place, colour, dash) {
  if (series.kind === "points") return drawPoints(series, place, colour);
  const { points, kind, faint } = series;
  const path = points
    .map(([x, y], index) => {
      const [at, level] = [place.x(x).toFixed(1), place.y(y).toFixed(1)];
      if (index === 0) return `M${at} ${level}`;
      return kind === "steps" ? `V${level}H${at}` : `L${at} ${level}`;
    })
    .join("");
  const stroke = { stroke: colour, "stroke-width": faint ? 1.2 : 2, "stroke-dasharray": dash };
  const line = draw("path", { d: path, fill: "none", "stroke-linejoin": "round", ...stroke });
  const group = draw("g", {}, line);
  if (kind === "line" && !faint && points.length < 30)
    for (const [x, y] of points)
      group.append(draw("circle", { cx: place.x(x), cy: place.y(y), r: 2.5, fill: colour }));
  return group;
}

function drawPoints({ points, faint }, place, colour) {
  const style = faint ? { r: 3, "fill-opacity": 0.45 } : { r: 5 };
  const dots = points.map(([x, y, title]) => {
    const dot = draw("circle", { cx: place.x(x), cy: place.y(y), fill: colour, ...style });
    if (title) dot.append(draw("title", {}, title));
    return dot;
  });
  return draw("g", {}, ...dots);
}

/** An entry of the legend. */
function makeKey({ name, kind }, colour, dash) {
  const stroke = { stroke: colour, "stroke-width": 3, "stroke-dasharray": dash };
  const sign =
    kind === "points"
      ? draw("circle", { cx: 12, cy: 6, r: 4, fill: colour })
      : draw("line", { x1: 0, x2: 24, y1: 6, y2: 6, ...stroke });
  const swatch = draw("svg", { width: 24, height: 12, "aria-hidden": "true" }, sign);
  return make("span", { className: "key plain" }, swatch, name);
}
