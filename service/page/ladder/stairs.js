/** The staircase of a kernel: its time over the tiles of a launch. */

import { drawChart } from "../chart.js";
import { make } from "../dom.js";
import { showNumber } from "../units.js";

/** The measured times of a kernel, and the staircase that plans are made from. */
export function drawStairs({ name, stairs }, width) {
  if (!stairs) return [make("p", { className: "caption", textContent: "Not measured." })];
  const { tile, k, slots, points } = stairs;
  const measured = points.map(([tiles, time]) => [tiles, time]);
  const modelled = points.map(([tiles, , time]) => [tiles, time]);
  const { figure, legend } = drawChart({
    width,
    height: Math.round(Math.min(300, Math.max(220, width * 0.45))),
    label: `${name}: microseconds over tiles, ${slots} tiles a wave`,
    x: { name: `tiles of ${tile.replaceAll("x", " × ")}, ${slots} a wave` },
    y: { name: `µs, K = ${showNumber(k)}` },
    series: [
      { name: "measured", kind: "points", points: measured },
      { name: "the model's staircase", kind: "steps", points: modelled },
    ],
  });
  return [figure, legend];
}
