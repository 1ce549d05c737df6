/** A probe of the GPU: what it shows, in words and in plots. */

import { drawChart } from "../chart.js";
import { make } from "../dom.js";

/** Least width of a plot in pixels, if two are side by side. */
const LEAST_WIDTH = 460;

/** A probe's text and plots, in `width` pixels. */
export function showProbe({ name, lesson, plots }, gpu, width) {
  const columns = plots.length > 1 && width > 2 * LEAST_WIDTH ? 2 : 1;
  const each = Math.floor(width / columns) - (columns > 1 ? 12 : 0);
  return [
    make("p", { className: "lesson", textContent: lesson }),
    make(
      "div",
      { className: `plots of-${columns}` },
      ...plots.map((plot) => drawPlot(plot, name, gpu, each)),
    ),
  ];
}

function drawPlot({ x, y, log, curves }, name, gpu, width) {
  const series = Object.entries(curves).map(([curve, points]) => ({
    name: curve,
    kind: "line",
    points,
  }));
  const { figure, legend } = drawChart({
    width,
    height: Math.round(Math.min(320, Math.max(230, width * 0.5))),
    label: `${name} on ${gpu}: ${y} over ${x}`,
    x: { name: x, log: log && series.every(({ points }) => points.every(([at]) => at > 0)) },
    y: { name: y },
    series,
  });
  return make("div", { className: "plot" }, figure, ...(series.length > 1 ? [legend] : []));
}
