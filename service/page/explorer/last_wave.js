/** The last wave, slot by slot: what works and what is idle. */

import { draw, drawFigure, write } from "../dom.js";
import { divideUp } from "../model/arithmetic.js";
import { showWhole } from "../units.js";
import { findColours, findWaveColour } from "../palette.js";
import { groupParts, nameGroup } from "./team_words.js";

const MOST_CELLS = 2200;
const CELL = 20;
const LINE = 22;

/** The drawing; null where no wave runs. GPUs whose last waves are alike share one. */
export function drawLastWave(plan, width) {
  const groups = groupParts(plan.gpuParts, nameTail);
  if (groups.length === 0) return null;
  const colours = findColours();
  const all = groups.map((parts) => listRows(parts[0].curve.grid.slots, width));
  const height = all.reduce((sum, rows) => sum + rows.count * rows.side + LINE, 0);
  const figure = drawFigure(width, height, tellLastWave(plan));
  let top = 0;
  groups.forEach((parts, index) => {
    const rows = all[index];
    drawSlots(figure, colours, parts[0], rows, top);
    top += rows.count * rows.side + LINE;
    const waves = showWhole(parts[0].waves);
    const whose = plan.gpuParts.length > 1 ? `${nameGroup(plan, parts)}: ` : "";
    figure.append(write(0, top - 7, `${whose}wave ${waves} of ${waves}`, { fill: colours.faint }));
  });
  return figure;
}

/** What the last wave fills, in words. */
export function tellLastWave(plan) {
  const groups = groupParts(plan.gpuParts, nameTail);
  if (groups.length === 0) return "No wave runs: the CPU computes every row.";
  if (plan.gpuParts.length === 1) return tellPart(plan.gpuParts[0], "The last wave");
  return groups
    .map((parts) => tellPart(parts[0], `The last wave of ${nameGroup(plan, parts)}`))
    .join(" ");
}

function drawSlots(figure, colours, part, rows, top) {
  const { waves, tailSplit } = part;
  const used = countUsed(part);
  const { side } = rows;
  const colour = findWaveColour(waves - 1, waves);
  for (let slot = 0; slot < rows.cells; slot += 1) {
    const works = slot * rows.slotsACell < used || tailSplit;
    figure.append(
      draw("rect", {
        x: (slot % rows.across) * side,
        y: top + Math.floor(slot / rows.across) * side,
        width: side - (side > 5 ? 2 : 0.5),
        height: side - (side > 5 ? 2 : 0.5),
        rx: side > 8 ? 2 : 0,
        fill: works ? colour : colours.idle,
        "fill-opacity": tailSplit && slot * rows.slotsACell >= used ? 0.55 : 1,
        stroke: works ? colours.faint : colours.idleLine,
        "stroke-width": side > 8 ? 0.6 : 0,
      }),
    );
  }
}

function tellPart(part, name) {
  const { slots } = part.curve.grid;
  const used = countUsed(part);
  const idle = slots - used;
  if (part.tailSplit) {
    return `${name} has ${used} tiles for ${slots} slots, so they are split along K among all slots.`;
  }
  if (idle === 0) return `${name} fills all ${slots} slots.`;
  return `${name} fills ${used} of ${slots} slots; ${idle} are idle, for as long as a whole wave takes.`;
}

/** What is equal where last waves are. */
function nameTail(part) {
  return `${part.waves} ${countUsed(part)} ${part.curve.grid.slots}`;
}

function countUsed({ tailUtilization, curve }) {
  return Math.round(tailUtilization * curve.grid.slots);
}

function listRows(slots, width) {
  const slotsACell = divideUp(slots, MOST_CELLS);
  const cells = divideUp(slots, slotsACell);
  const side = Math.max(4, Math.min(CELL, Math.sqrt((width * 130) / cells)));
  const across = Math.max(1, Math.floor(width / side));
  return { slotsACell, cells, across, side, count: divideUp(cells, across) };
}
