/** Curves over one axis, linear or logarithmic, with their names below. */

import { draw, drawFigure, make, write } from "./dom.js";
import { findColours, listCurveColours } from "./palette.js";
import { listTicks, showNumber } from "./units.js";

const LEFT = 56;
const RIGHT = 14;
const TOP = 26;
const BOTTOM = 46;
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "12 4", "4 4", "1 4", "14 3 3 3", "6 2"];

/** What an axis does: {name, log, from, to}. */
function makeScale({ log }, from, to, begin, end) {
  const place = log ? Math.log10 : (value) => value;
  const [low, high] = [place(from), place(to)];
  return (value) => begin + ((place(value) - low) / (high - low || 1)) * (end - begin);
}

/** A figure of curves and its legend.
 *
 * `series` are {name, points, kind, faint}, kind being "line", "steps" or "points"; `x` and `y` are
 * {name, log}. Points are [x, y] or [x, y, title].
 */
export function drawChart({ width, height, label, x, y, series }) {
  const colours = findColours();
  const figure = drawFigure(width, height, label);
  const shown = series.flatMap(({ points }) => points);
  const across = findRange(
    x,
    shown.map(([at]) => at),
  );
  const up = findRange(
    y,
    shown.map(([, at]) => at),
  );
  const place = {
    x: makeScale(x, ...across, LEFT, width - RIGHT),
    y: makeScale(y, ...up, height - BOTTOM, TOP),
  };
  drawGrid(figure, { x, y, across, up, place, width, height, colours });
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

/** The least and most of an axis, a little wider than what is shown. */
function findRange({ log, least }, values) {
  const positive = log ? values.filter((value) => value > 0) : values;
  const [low, high] = [Math.min(...positive), Math.max(...positive)];
  if (log) return [(least ?? low) / 1.15, high * 1.25];
  return [Math.min(0, low), high * 1.06 || 1];
}

function drawGrid(figure, { x, y, across, up, place, width, height, colours }) {
  const text = { fill: colours.faint };
  for (const tick of listAxis(y, up, 5)) {
    const at = place.y(tick);
    figure.append(
      draw("line", { x1: LEFT, x2: width - RIGHT, y1: at, y2: at, stroke: colours.line }),
      write(LEFT - 7, at + 4, showTick(tick), { ...text, "text-anchor": "end" }),
    );
  }
  for (const tick of listAxis(x, across, Math.max(2, Math.floor(width / 95)))) {
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

function listAxis({ log }, [from, to], count) {
  if (!log) return listTicks(from, to, count);
  const decades = Math.log10(to / from);
  const base = decades > 2 ? 10 : 2;
  const step = Math.ceil(decades / Math.log10(base) / (count + 2));
  const first = Math.ceil(Math.log(from) / Math.log(base) - 1e-9);
  const ticks = [];
  for (let power = first; base ** power <= to; power += step) ticks.push(base ** power);
  return ticks;
}

const THOUSANDS = [
  [2 ** 30, "Gi"],
  [2 ** 20, "Mi"],
  [2 ** 10, "Ki"],
];

function showTick(value) {
  const [size, unit] = THOUSANDS.find(([one]) => value >= one && value % one === 0) ?? [1, ""];
  return showNumber(value / size) + unit;
}

function drawCurve({ points, kind, faint }, place, colour, dash) {
  const group = draw("g", {});
  if (kind === "points") {
    for (const [across, up, title] of points) {
      const style = faint ? { r: 3, "fill-opacity": 0.45 } : { r: 5 };
      const dot = draw("circle", { cx: place.x(across), cy: place.y(up), fill: colour, ...style });
      if (title) dot.append(draw("title", {}, title));
      group.append(dot);
    }
    return group;
  }
  const path = points
    .map(([across, up], index) => {
      const [at, level] = [place.x(across).toFixed(1), place.y(up).toFixed(1)];
      if (index === 0) return `M${at} ${level}`;
      return kind === "steps" ? `V${level}H${at}` : `L${at} ${level}`;
    })
    .join("");
  const stroke = { stroke: colour, "stroke-width": faint ? 1.2 : 2, "stroke-dasharray": dash };
  group.append(draw("path", { d: path, fill: "none", "stroke-linejoin": "round", ...stroke }));
  if (kind === "line" && !faint && points.length < 30)
    for (const [across, up] of points)
      group.append(draw("circle", { cx: place.x(across), cy: place.y(up), r: 2.5, fill: colour }));
  return group;
}

function makeKey({ name, kind }, colour, dash) {
  const sign =
    kind === "points"
      ? draw("circle", { cx: 12, cy: 6, r: 4, fill: colour })
      : draw("line", {
          x1: 0,
          x2: 24,
          y1: 6,
          y2: 6,
          stroke: colour,
          "stroke-width": 3,
          "stroke-dasharray": dash,
        });
  const swatch = draw("svg", { width: 24, height: 12, "aria-hidden": "true" }, sign);
  return make("span", { className: "key plain" }, swatch, name);
}
