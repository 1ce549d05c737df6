/** C as tiles coloured by wave, the CPU's rows hatched. */

import { draw, drawFigure, write } from "../dom.js";
import { divideDown, divideUp } from "../model/arithmetic.js";
import { showWhole } from "../units.js";
import { findColours, findInk, findWaveColour } from "../palette.js";
import { count } from "./words.js";

const MOST_BANDS = 400;
const LEFT = 54;
const TOP = 22;

/** The drawing of a plan's C, at most `width` pixels wide. */
export function drawWaveMap(plan, width) {
  const { m, n } = plan.problem;
  const room = width - LEFT - 2;
  const shape = Math.min(Math.max(m / n, 0.45), 1.05);
  const height = Math.round(Math.min(room * shape, 560));
  const label = describe(plan);
  const figure = drawFigure(width, height + TOP + 26, label);
  const colours = findColours();
  const map = { plan, figure, colours, left: LEFT, top: TOP, room, height, pixelsARow: height / m };
  figure.append(
    write(LEFT + room / 2, 14, `N = ${showWhole(n)} columns`, middle(colours)),
    write(0, 0, `M = ${showWhole(m)} rows`, {
      ...middle(colours),
      transform: `translate(14 ${TOP + height / 2}) rotate(-90)`,
    }),
  );
  if (plan.gpuRows > 0 && plan.gpuCurve) drawWaves(map);
  if (plan.f > 0) drawCpuRows(map);
  const outline = { x: LEFT, y: TOP, width: room, height, fill: "none", stroke: colours.faint };
  figure.append(draw("rect", outline));
  return figure;
}

/** What the drawing shows, for those who read it. */
export function tellWaveMap(plan) {
  if (!plan.gpuCurve || plan.gpuRows === 0) return "Hatched: the CPU computes these rows.";
  const waves = "Each colour is a wave: tiles that run at the same time.";
  return plan.f === 0 ? waves : `${waves} The last rows, hatched, are the CPU's.`;
}

function middle(colours) {
  return { "text-anchor": "middle", fill: colours.faint };
}

function describe(plan) {
  const waves = plan.gpuRows > 0 && plan.gpuCurve ? count(plan.waves, "wave") : "no wave";
  return `C with ${showWhole(plan.gpuRows)} rows of the GPU in ${waves}, and ${showWhole(plan.f)} rows of the CPU`;
}

function drawWaves(map) {
  const { plan, figure, colours } = map;
  const { grid } = plan.gpuCurve;
  const tiles = grid.countTiles(plan.gpuRows);
  const wavesABand = divideUp(plan.waves, MOST_BANDS);
  const bands = divideUp(plan.waves, wavesABand);
  const waveHeight = (plan.gpuRows * map.pixelsARow) / plan.waves;
  const gap = waveHeight * wavesABand >= 5 ? 1 : 0;
  for (let band = 0; band < bands; band += 1) {
    const first = band * wavesABand;
    const last = Math.min(first + wavesABand, plan.waves);
    const span = [first * grid.slots, Math.min(last * grid.slots, tiles)];
    const path = draw("path", {
      d: outline(map, grid, span),
      fill: findWaveColour(band, bands),
      stroke: colours.surface,
      "stroke-width": gap,
    });
    const used = span[1] - (last - 1) * grid.slots;
    const name = last - first === 1 ? `wave ${last}` : `waves ${first + 1} to ${last}`;
    path.append(draw("title", {}, `${name}: the last fills ${used} of ${grid.slots} slots`));
    figure.append(path);
  }
  drawGrid(map, grid);
  if (waveHeight >= 15) labelWaves(map, grid, tiles);
}

/** The outline of tiles first…last-1, which run along the rows of tiles. */
function outline({ left, top, room, height, plan }, grid, [first, last]) {
  const across = grid.tilesPerTileRow;
  const x = (column) => round(left + Math.min(room, (column * grid.tileN * room) / plan.problem.n));
  const y = (row) =>
    round(top + (Math.min(plan.gpuRows, row * grid.tileM) * height) / plan.problem.m);
  const [fromRow, toRow] = [divideDown(first, across), divideDown(last, across)];
  const [fromColumn, toColumn] = [first - fromRow * across, last - toRow * across];
  const right = round(left + room);
  if (fromRow === toRow) {
    return `M${x(fromColumn)} ${y(fromRow)}H${x(toColumn)}V${y(fromRow + 1)}H${x(fromColumn)}Z`;
  }
  const end =
    toColumn === 0 ? `V${y(toRow)}H${left}` : `V${y(toRow)}H${x(toColumn)}V${y(toRow + 1)}H${left}`;
  const begin = fromColumn === 0 ? "Z" : `V${y(fromRow + 1)}H${x(fromColumn)}Z`;
  return `M${x(fromColumn)} ${y(fromRow)}H${right}${end}${begin}`;
}

function drawGrid({ plan, figure, colours, left, top, room, height, pixelsARow }, grid) {
  const tileWidth = (grid.tileN * room) / plan.problem.n;
  const tileHeight = grid.tileM * pixelsARow;
  if (tileWidth < 6 || tileHeight < 6) return;
  const bottom = round(top + (plan.gpuRows * height) / plan.problem.m);
  let path = "";
  for (let x = tileWidth; x < room - 1; x += tileWidth)
    path += `M${round(left + x)} ${top}V${bottom}`;
  for (let y = top + tileHeight; y < bottom - 1; y += tileHeight) {
    path += `M${left} ${round(y)}H${round(left + room)}`;
  }
  figure.append(
    draw("path", { d: path, stroke: colours.surface, "stroke-opacity": 0.35, fill: "none" }),
  );
}

function labelWaves(map, grid, tiles) {
  const { plan, figure, left, top, height, room } = map;
  for (let wave = 0; wave < plan.waves; wave += 1) {
    const last = Math.min((wave + 1) * grid.slots, tiles);
    const at = divideDown((wave * grid.slots + last - 1) / 2, grid.tilesPerTileRow);
    const rows = Math.min(plan.gpuRows, (at + 0.5) * grid.tileM);
    const y = top + (rows * height) / plan.problem.m + 4;
    const style = {
      fill: findInk(wave, plan.waves),
      "text-anchor": "middle",
      "pointer-events": "none",
    };
    figure.append(write(round(left + room / 2), round(y), `wave ${wave + 1}`, style));
  }
}

function drawCpuRows({ plan, figure, colours, left, top, room, height }) {
  const y = round(top + (plan.gpuRows * height) / plan.problem.m);
  const tall = Math.max(2, top + height - y);
  const hatch = draw("pattern", {
    id: "hatch",
    width: 7,
    height: 7,
    patternUnits: "userSpaceOnUse",
    patternTransform: "rotate(45)",
  });
  hatch.append(
    draw("rect", { width: 7, height: 7, fill: colours.surface }),
    draw("rect", { width: 3, height: 7, fill: colours.CPU }),
  );
  const rows = draw("rect", {
    x: left,
    y: Math.min(y, top + height - 2),
    width: room,
    height: tall,
    fill: "url(#hatch)",
  });
  rows.append(draw("title", {}, `the CPU's rows: ${showWhole(plan.f)}`));
  const text = `F = ${showWhole(plan.f)}: the CPU's rows`;
  const style = { fill: colours.text, "text-anchor": "end" };
  figure.append(draw("defs", {}, hatch), rows, write(left + room, top + height + 17, text, style));
}

function round(pixels) {
  return Math.round(pixels * 10) / 10;
}
