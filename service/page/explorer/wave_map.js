/** The map of C: tiles coloured by wave, the CPU's rows hatched. */

import { draw, drawFigure, write } from "../dom.js";
import { showWhole } from "../units.js";
import { findInk, findWaveColour } from "../palette.js";
import { nameGpu, nameShare } from "./team_words.js";
import { count } from "./words.js";

/** Most bands of colour; with more waves, several share a band. */
const MOST_BANDS = 400;
const LEFT = 54;
const TOP = 22;
const NAME_HEIGHT = 18;
/** Least width in pixels of a part whose waves are labelled. */
const LABELLED_WIDTH = 150;
const MIDDLE = { "text-anchor": "middle", fill: "var(--faint)" };

/** The drawing of a plan's C, at most `width` pixels wide. */
export function drawWaveMap(plan, width) {
  const { m, n } = plan.problem;
  const parts = plan.gpuParts;
  const room = width - LEFT - 2;
  const shape = Math.min(Math.max(m / n, 0.45), 0.9);
  const least = parts.length > 1 && !plan.divides_columns ? parts.length * (NAME_HEIGHT + 6) : 0;
  const height = Math.round(Math.max(least, Math.min(room * shape, 560)));
  const figure = drawFigure(width, height + TOP + 26, describe(plan));
  const place = { left: LEFT, top: TOP, room, height, pixelsARow: height / m };
  const map = { plan, figure, ...place };
  figure.append(
    write(LEFT + room / 2, 14, `N = ${showWhole(n)} columns`, MIDDLE),
    write(0, 0, `M = ${showWhole(m)} rows`, {
      ...MIDDLE,
      transform: `translate(14 ${TOP + height / 2}) rotate(-90)`,
    }),
  );
  const regions = parts.map((part) => findRegion(map, part));
  for (const region of regions) drawWaves(map, region);
  if (plan.f > 0) drawCpuRows(map);
  if (regions.length > 1) regions.forEach((region) => drawName(map, region));
  const frame = { x: LEFT, y: TOP, width: room, height, fill: "none", stroke: "var(--faint)" };
  figure.append(draw("rect", frame));
  return figure;
}

/** The caption: what the drawing shows. */
export function tellWaveMap(plan) {
  const parts = plan.gpuParts;
  if (parts.length === 0) return "Hatched: the CPU computes these rows.";
  const waves = "Each colour is a wave: tiles that run at the same time.";
  const word = plan.divides_columns ? "columns" : "rows";
  const gpus = ` Lines divide the ${word} of ${parts.length} GPUs; each has waves of its own.`;
  const cpu = plan.f === 0 ? "" : " The last rows, hatched, are the CPU's.";
  return `${waves}${parts.length > 1 ? gpus : ""}${cpu}`;
}

/** The label: which device computes what. */
function describe(plan) {
  const parts = plan.gpuParts;
  const cpu = `${showWhole(plan.f)} rows of the CPU`;
  if (parts.length > 1) {
    const shares = parts.map(
      (part) => `${nameShare(plan, part)} of ${nameGpu(part)} in ${count(part.waves, "wave")}`,
    );
    return `C with ${shares.join(", ")}, and ${cpu}`;
  }
  const waves = parts.length > 0 ? count(plan.waves, "wave") : "no wave";
  return `C with ${showWhole(plan.gpu_rows)} rows of the GPU in ${waves}, and ${cpu}`;
}

/** The part of a GPU, with its rectangle in the drawing. */
function findRegion({ plan, left, top, room, pixelsARow }, part) {
  const pixelsAColumn = room / plan.problem.n;
  return {
    part,
    waves: part.waves,
    rows: part.rows,
    left: left + part.first_column * pixelsAColumn,
    top: top + part.first_row * pixelsARow,
    width: part.columns * pixelsAColumn,
    pixelsARow,
    height: part.rows * pixelsARow,
  };
}

function drawWaves({ plan, figure }, region) {
  const { waves, part } = region;
  const { slots, tiles } = part;
  const wavesABand = Math.ceil(waves / Math.ceil(MOST_BANDS / plan.gpuParts.length));
  const bands = Math.ceil(waves / wavesABand);
  const waveHeight = region.height / waves;
  const gap = waveHeight * wavesABand >= 5 ? 1 : 0;
  const whose = plan.gpuParts.length > 1 ? `${nameGpu(part)}, ` : "";
  for (let band = 0; band < bands; band += 1) {
    const first = band * wavesABand;
    const last = Math.min(first + wavesABand, waves);
    const span = [first * slots, Math.min(last * slots, tiles)];
    const path = draw("path", {
      d: outline(region, span),
      fill: findWaveColour(band, bands),
      stroke: "var(--surface)",
      "stroke-width": gap,
    });
    const used = span[1] - (last - 1) * slots;
    const name = last - first === 1 ? `wave ${last}` : `waves ${first + 1} to ${last}`;
    path.append(draw("title", {}, `${whose}${name}: the last fills ${used} of ${slots} slots`));
    figure.append(path);
  }
  drawGrid(figure, region);
  if (waveHeight >= 15 && region.width >= LABELLED_WIDTH) labelWaves(figure, region);
}

/** The outline, as an SVG path, of tiles first…last-1, numbered along the rows of tiles. */
function outline({ left, top, width, rows, pixelsARow, part }, [first, last]) {
  const across = part.tilesAcross;
  const x = (column) => round(left + Math.min(width, (column * part.tile_columns * width) / part.columns));
  const y = (row) => round(top + Math.min(rows, row * part.tile_rows) * pixelsARow);
  const [fromRow, toRow] = [first, last].map((tile) => Math.floor(tile / across));
  const [fromColumn, toColumn] = [first - fromRow * across, last - toRow * across];
  const [start, right] = [round(left), round(left + width)];
  if (fromRow === toRow) {
    return `M${x(fromColumn)} ${y(fromRow)}H${x(toColumn)}V${y(fromRow + 1)}H${x(fromColumn)}Z`;
  }
  const end =
    toColumn === 0 ? `V${y(toRow)}H${start}` : `V${y(toRow)}H${x(toColumn)}V${y(toRow + 1)}H${start}`;
  const begin = fromColumn === 0 ? "Z" : `V${y(fromRow + 1)}H${x(fromColumn)}Z`;
  return `M${x(fromColumn)} ${y(fromRow)}H${right}${end}${begin}`;
}

/** Lines between tiles, if these are large enough. */
function drawGrid(figure, { left, top, width, height, pixelsARow, part }) {
  const tileWidth = (part.tile_columns * width) / part.columns;
  const tileHeight = part.tile_rows * pixelsARow;
  if (tileWidth < 6 || tileHeight < 6) return;
  const bottom = round(top + height);
  let path = "";
  for (let x = tileWidth; x < width - 1; x += tileWidth)
    path += `M${round(left + x)} ${round(top)}V${bottom}`;
  for (let y = top + tileHeight; y < bottom - 1; y += tileHeight) {
    path += `M${round(left)} ${round(y)}H${round(left + width)}`;
  }
  figure.append(
    draw("path", { d: path, stroke: "var(--surface)", "stroke-opacity": 0.35, fill: "none" }),
  );
}

function labelWaves(figure, { left, top, width, rows, waves, pixelsARow, part }) {
  for (let wave = 0; wave < waves; wave += 1) {
    const last = Math.min((wave + 1) * part.slots, part.tiles);
    const at = Math.floor((wave * part.slots + last - 1) / 2 / part.tilesAcross);
    const y = top + Math.min(rows, (at + 0.5) * part.tile_rows) * pixelsARow + 4;
    const style = {
      fill: findInk(wave, waves),
      "text-anchor": "middle",
      "pointer-events": "none",
    };
    figure.append(write(round(left + width / 2), round(y), `wave ${wave + 1}`, style));
  }
}

/** The name of a GPU in the corner of its part, and the line where its part begins. */
function drawName({ plan, figure }, { part, left, top, width, height }) {
  const [x, y] = [round(left), round(top)];
  const line = plan.divides_columns
    ? { x1: x, x2: x, y1: y, y2: round(top + height) }
    : { x1: x, x2: round(left + width), y1: y, y2: y };
  if (part.first_row + part.first_column > 0) {
    figure.append(
      draw("line", { ...line, stroke: "var(--surface)", "stroke-width": 5 }),
      draw("line", { ...line, stroke: "var(--text)", "stroke-width": 2 }),
    );
  }
  const names = [nameGpu(part), String(part.index)];
  const measure = (text) => 8 + 7 * text.length;
  const name = names.find((one) => measure(one) + 6 <= width);
  if (name === undefined || NAME_HEIGHT + 4 > height) return;
  const ground = { x: x + 4, y: y + 4, width: measure(name), height: NAME_HEIGHT, rx: 3 };
  const style = { fill: "var(--text)", "text-anchor": "middle", "font-weight": 600 };
  figure.append(
    draw("rect", { ...ground, fill: "var(--surface)" }),
    write(round(x + 4 + measure(name) / 2), y + 17, name, style),
  );
}

function drawCpuRows({ plan, figure, left, top, room, height }) {
  const y = round(top + (plan.gpu_rows * height) / plan.problem.m);
  const rows = draw("rect", {
    x: left,
    y: Math.min(y, top + height - 2),
    width: room,
    height: Math.max(2, top + height - y),
    fill: "url(#hatch)",
  });
  rows.append(draw("title", {}, `the CPU's rows: ${showWhole(plan.f)}`));
  const text = `F = ${showWhole(plan.f)}: the CPU's rows`;
  const style = { fill: "var(--text)", "text-anchor": "end" };
  figure.append(
    draw("defs", {}, makeHatch()),
    rows,
    write(left + room, top + height + 17, text, style),
  );
}

function makeHatch() {
  const size = { width: 7, height: 7 };
  const turned = { patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
  return draw(
    "pattern",
    { id: "hatch", ...size, ...turned },
    draw("rect", { ...size, fill: "var(--surface)" }),
    draw("rect", { width: 3, height: 7, fill: "var(--cpu)" }),
  );
}

function round(pixels) {
  return Math.round(pixels * 10) / 10;
}
