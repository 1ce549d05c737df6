/** The last wave, slot by slot: what works and what is idle. */

import { draw, drawFigure, write } from "../dom.js";
import { divideUp } from "../model/arithmetic.js";
import { showWhole } from "../units.js";
import { findColours, findWaveColour } from "../palette.js";

const MOST_CELLS = 2200;
const CELL = 20;

/** The drawing; null where no wave runs. */
export function drawLastWave(plan, width) {
  if (plan.gpuRows === 0 || !plan.gpuCurve) return null;
  const { slots } = plan.gpuCurve.grid;
  const used = Math.round(plan.tailUtilization * slots);
  const colours = findColours();
  const rows = listRows(slots, width);
  const side = rows.side;
  const figure = drawFigure(width, rows.count * side + 22, tellLastWave(plan));
  const colour = findWaveColour(plan.waves - 1, plan.waves);
  for (let slot = 0; slot < rows.cells; slot += 1) {
    const works = slot * rows.slotsACell < used || plan.tailSplit;
    figure.append(
      draw("rect", {
        x: (slot % rows.across) * side,
        y: Math.floor(slot / rows.across) * side,
        width: side - (side > 5 ? 2 : 0.5),
        height: side - (side > 5 ? 2 : 0.5),
        rx: side > 8 ? 2 : 0,
        fill: works ? colour : colours.idle,
        "fill-opacity": plan.tailSplit && slot * rows.slotsACell >= used ? 0.55 : 1,
        stroke: works ? colours.faint : colours.idleLine,
        "stroke-width": side > 8 ? 0.6 : 0,
      }),
    );
  }
  const text = `wave ${showWhole(plan.waves)} of ${showWhole(plan.waves)}`;
  figure.append(write(0, rows.count * side + 15, text, { fill: colours.faint }));
  return figure;
}

/** What the last wave fills, in words. */
export function tellLastWave(plan) {
  if (plan.gpuRows === 0 || !plan.gpuCurve) return "No wave runs: the CPU computes every row.";
  const { slots } = plan.gpuCurve.grid;
  const used = Math.round(plan.tailUtilization * slots);
  const idle = slots - used;
  if (plan.tailSplit) {
    return `The last wave has ${used} tiles for ${slots} slots, so they are split along K among all slots.`;
  }
  if (idle === 0) return `The last wave fills all ${slots} slots.`;
  return `The last wave fills ${used} of ${slots} slots; ${idle} are idle, for as long as a whole wave takes.`;
}

function listRows(slots, width) {
  const slotsACell = divideUp(slots, MOST_CELLS);
  const cells = divideUp(slots, slotsACell);
  const side = Math.max(4, Math.min(CELL, Math.sqrt((width * 130) / cells)));
  const across = Math.max(1, Math.floor(width / side));
  return { slotsACell, cells, across, side, count: divideUp(cells, across) };
}
