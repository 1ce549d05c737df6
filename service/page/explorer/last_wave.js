/** The last wave, slot by slot: which are busy and which are idle. */

import { draw, drawFigure, write } from "../dom.js";
import { showWhole } from "../units.js";
import { findWaveColour } from "../palette.js";
import { groupParts, nameGroup } from "./team_words.js";
import { count } from "./words.js";

const MOST_CELLS = 2200;
const CELL = 20;
const LINE = 22;

/** The drawing in a list, which is empty if no wave runs. GPUs whose last waves are equal share it. */
export function drawLastWave(plan, width) {
  const groups = groupParts(plan.gpuParts, nameTail);
  if (groups.length === 0) return [];
  const layouts = groups.map((parts) => layOutCells(parts[0].slots, width));
  const height = layouts.reduce((sum, layout) => sum + layout.height + LINE, 0);
  const figure = drawFigure(width, height, tellLastWave(plan));
  let top = 0;
  groups.forEach((parts, index) => {
    const layout = layouts[index];
    drawSlots(figure, parts[0], layout, top);
    top += layout.height + LINE;
    const waves = showWhole(parts[0].waves);
    const whose = plan.gpuParts.length > 1 ? `${nameGroup(parts)}: ` : "";
    figure.append(write(0, top - 7, `${whose}wave ${waves} of ${waves}`, { fill: "var(--faint)" }));
  });
  return [figure];
}

/** What a wave is, and what the last one fills: "40 slots compute 40 tiles at a time: one wave; …". */
export function tellLastWave(plan) {
  const groups = groupParts(plan.gpuParts, nameTail);
  if (groups.length === 0) return "The CPU computes every row, so there is no wave.";
  const several = plan.gpuParts.length > 1;
  return groups
    .map((parts) => tellPart(parts[0], several ? `${nameGroup(parts)}: ` : ""))
    .join(" ");
}

/** The slots as cells; in a wave divided along K, those without a tile of their own are pale. */
function drawSlots(figure, part, { slotsACell, cells, across, side }, top) {
  const { waves, tail_split: isSplit } = part;
  const used = part.tailTiles;
  const colour = findWaveColour(waves - 1, waves);
  const edge = side - (side > 5 ? 2 : 0.5);
  for (let cell = 0; cell < cells; cell += 1) {
    const hasTile = cell * slotsACell < used;
    const isBusy = hasTile || isSplit;
    figure.append(
      draw("rect", {
        x: (cell % across) * side,
        y: top + Math.floor(cell / across) * side,
        width: edge,
        height: edge,
        rx: side > 8 ? 2 : 0,
        fill: isBusy ? colour : "var(--idle)",
        "fill-opacity": isBusy && !hasTile ? 0.55 : 1,
        stroke: isBusy ? "var(--faint)" : "var(--idle-line)",
        "stroke-width": side > 8 ? 0.6 : 0,
      }),
    );
  }
}

function tellPart({ slots, waves, tailTiles: used, tail_split: isSplit }, whose) {
  const idle = slots - used;
  const waiting = idle === 1 ? "the other waits" : `the other ${showWhole(idle)} wait`;
  const others = isSplit ? "split along K among all slots" : waiting;
  const last = `the ${waves === 1 ? "only" : "last"} wave ${idle === 0 ? "is full" : `has ${showWhole(used)}, ${others}`}`;
  const compute = `${count(slots, "slot")} ${slots === 1 ? "computes" : "compute"}`;
  return `${whose}${compute} ${count(slots, "tile")} at a time: one wave; ${last}.`;
}

/** The last wave of a part as text, which is equal for equal last waves. */
function nameTail(part) {
  return `${part.waves} ${part.tailTiles} ${part.slots}`;
}

/** The number and positions of the cells; with very many slots, several share a cell. */
function layOutCells(slots, width) {
  const slotsACell = Math.ceil(slots / MOST_CELLS);
  const cells = Math.ceil(slots / slotsACell);
  const side = Math.max(4, Math.min(CELL, Math.sqrt((width * 130) / cells)));
  const across = Math.max(1, Math.floor(width / side));
  return { slotsACell, cells, across, side, height: Math.ceil(cells / across) * side };
}
