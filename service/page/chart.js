/** A chart: curves over linear or logarithmic axes, with a legend. */

import { draw, drawFigure, make, write } from "./dom.js";
import { listTicks, showNumber } from "./units.js";

const LEFT = 56;
const RIGHT = 14;
const TOP = 26;
const BOTTOM = 52;
/** Pixels around the axes in which curves are still drawn, so that their dots are whole. */
const EDGE = 6;

/** Variables of style.css, and dashes, for the curves of a chart; both differ. */
const COLOURS = "gpu cpu kernel measured copy-out curve-6 curve-7 curve-8 faint".split(" ");
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "12 4", "4 4", "1 4", "14 3 3 3", "6 2"];

/** The chart, {figure, area, place, legend}.
 *
 * `series` are {name, points, kind, faint, style}. The kind is "line", "points", or "steps before" or
 * "steps after" each point; points are [x, y] or [x, y, title]; `style` replaces attributes. `x` and
 * `y` are axes, {name, log, range, isWhole}: `range` is [from, to], that of the points if it is left
 * out. `place` has functions from values to pixels; `area` is clipped to the axes.
 */
export function drawChart({ width, height, label, x, y, series }) {
  const figure = drawFigure(width, height, label);
  const shown = series.flatMap(({ points }) => points);
  const [xRange, yRange] = [x, y].map(
    (axis, index) => axis.range ?? findRange(axis, shown.map((point) => point[index])),
  );
  const place = {
    x: makeScale(x, xRange, LEFT, width - RIGHT),
    y: makeScale(y, yRange, height - BOTTOM, TOP),
  };
  drawGrid(figure, { x, y, xRange, yRange, place, width, height });
  const styled = series.map((one, index) => {
    const style = { ...findStyle(one, index), ...one.style };
    return { ...one, style };
  });
  const area = drawArea(width, height);
  area.append(...styled.map((one) => drawSeries(one, place)));
  figure.append(area);
  const keys = styled.filter(({ name }) => name).map(makeKey);
  const legend = make("p", { className: "caption legend" }, ...keys);
  return { figure, area, place, legend };
}

/** The area within the axes: what is drawn in it is cut off at its edge. */
function drawArea(width, height) {
  const [x, y] = [LEFT - EDGE, TOP - EDGE];
  const size = [width - RIGHT + EDGE - x, height - BOTTOM + EDGE - y];
  return draw("svg", { x, y, width: size[0], height: size[1], viewBox: [x, y, ...size] });
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

function drawGrid(figure, { x, y, xRange, yRange, place, width, height }) {
  const text = { fill: "var(--faint)" };
  const [right, bottom] = [width - RIGHT, height - BOTTOM];
  const line = { x1: LEFT, x2: right, y1: bottom, y2: bottom, stroke: "var(--line)" };
  for (const tick of listAxisTicks(y, yRange, 5)) {
    const at = place.y(tick);
    figure.append(
      draw("line", { ...line, y1: at, y2: at }),
      write(LEFT - 7, at + 4, showTick(tick), { ...text, "text-anchor": "end" }),
    );
  }
  for (const tick of listAxisTicks(x, xRange, Math.max(2, Math.floor(width / 95)))) {
    const at = place.x(tick);
    figure.append(
      draw("line", { ...line, x1: at, x2: at, y1: TOP }),
      write(at, bottom + 22, showTick(tick), { ...text, "text-anchor": "middle" }),
    );
  }
  figure.append(
    draw("line", { ...line, stroke: "var(--faint)" }),
    write(6, 13, y.name, text),
    write(right, height - 8, x.name, { ...text, "text-anchor": "end" }),
  );
}

/** About `count` ticks: round numbers, or on a logarithmic axis powers of 2 or 10. */
function listAxisTicks({ log, isWhole }, [from, to], count) {
  if (!log) return listTicks(from, to, count).filter((tick) => !isWhole || Number.isInteger(tick));
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

/** The attributes of a series by its place among them. */
function findStyle({ kind, faint }, index) {
  const colour = `var(--${faint ? "faint" : COLOURS[index % COLOURS.length]})`;
  if (kind === "points") return { fill: colour, r: faint ? 3 : 5, "fill-opacity": faint ? 0.45 : 1 };
  const line = { "stroke-width": 2, "stroke-dasharray": DASHES[index % DASHES.length] };
  return { fill: "none", stroke: colour, "stroke-linejoin": "round", ...line };
}

function drawSeries({ points, kind, style }, place) {
  const at = points.map(([x, y]) => [place.x(x).toFixed(1), place.y(y).toFixed(1)]);
  const dot = ([cx, cy], look, title) =>
    draw("circle", { cx, cy, ...look }, ...(title ? [draw("title", {}, title)] : []));
  if (kind === "points")
    return draw("g", {}, ...at.map((one, index) => dot(one, style, points[index][2])));
  const join = ([x, y]) =>
    ({ line: `L${x} ${y}`, "steps before": `V${y}H${x}`, "steps after": `H${x}V${y}` })[kind];
  const [[x, y], ...others] = at;
  const path = draw("path", { d: `M${x} ${y}${others.map(join).join("")}`, ...style });
  const isSparse = kind === "line" && at.length < 30;
  const dots = isSparse ? at.map((one) => dot(one, { r: 2.5, fill: style.stroke })) : [];
  return draw("g", {}, path, ...dots);
}

/** An entry of a legend: a sample of a series, and its name. */
export function makeKey({ name, kind, style }) {
  const sign =
    kind === "points"
      ? draw("circle", { ...style, cx: 12, cy: 6, r: 4, "fill-opacity": 1 })
      : draw("line", { x1: 0, x2: 24, y1: 6, y2: 6, ...style });
  const swatch = draw("svg", { width: 24, height: 12, "aria-hidden": "true" }, sign);
  return make("span", { className: "key" }, swatch, name);
}
