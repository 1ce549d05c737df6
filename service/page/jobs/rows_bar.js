/** C's rows as one bar: the GPU fills it from the left, the CPU from the right, until they meet. */

import { draw, drawFigure } from "../dom.js";
import { showWhole } from "../units.js";

const LENGTH = 1000;
const HEIGHT = 22;

/** Rows of a job that each side has computed: {rows, gpu, nodes, cpu, planned}.
 *
 * `rows`: all rows; `planned`: the plan's F. Null before there is a plan.
 */
export function findShares({ state, plan, timings, rows_done: done }) {
  if (plan === null) return null;
  const rows = plan.f + plan.gpu_rows;
  const planned = plan.f;
  if (state === "succeeded") return { rows, planned, ...findFinalShares(plan, timings, rows) };
  const { gpu = 0, nodes = 0, cpu = 0 } = done ?? {};
  return { rows, planned, gpu, nodes, cpu };
}

function findFinalShares({ nodes }, timings, rows) {
  if (nodes?.length) return { gpu: 0, nodes: rows, cpu: 0 };
  const cpu = timings?.f_actual ?? rows;
  return { gpu: rows - cpu, nodes: 0, cpu };
}

/** The bar of some shares. */
export function drawRowsBar(shares) {
  const { rows, gpu, nodes, cpu, planned } = shares;
  const length = (part) => (part / rows) * LENGTH;
  const figure = drawFigure(LENGTH, HEIGHT, tellShares(shares));
  figure.setAttribute("preserveAspectRatio", "none");
  figure.setAttribute("class", "rows-bar");
  const part = (name, x, width) =>
    draw("rect", { class: name, x, y: 0, width: Math.max(0, width), height: HEIGHT });
  figure.append(
    part("rest", 0, LENGTH),
    part("gpu", 0, length(gpu)),
    part("nodes", length(gpu), length(nodes)),
    part("cpu", LENGTH - length(cpu), length(cpu)),
  );
  if (planned > 0 && planned < rows)
    figure.append(part("boundary", LENGTH - length(planned) - 2, 4));
  return figure;
}

/** The same in words, without sides that have no rows. */
export function tellShares({ rows, gpu, nodes, cpu, planned }) {
  const sides = [
    ["GPU", gpu, planned < rows],
    ["CPU", cpu, planned > 0],
    ["other hosts", nodes, false],
  ];
  const told = sides
    .filter(([, done, isPlanned]) => isPlanned || done > 0)
    .map(([name, done]) => `${name} ${showWhole(Math.round(done))}`);
  return `${told.join(", ")} of ${showWhole(rows)} rows`;
}
