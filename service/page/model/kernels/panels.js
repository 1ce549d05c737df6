/** Panels: how the rows of a product are cut (kernels/schedule/panels.py). */

import { divideDown, divideUp, roundHundredths } from "../arithmetic.js";
import { TABLES } from "../tables.js";

const { ROW_PART_BYTES } = TABLES.constants;

/** Everything that decides how a product is cut. Frozen; `vary` makes another one. */
export class PanelProblem {
  constructor(fields) {
    Object.assign(this, fields);
    this.tilesPerTileRow = divideUp(this.n, this.tileN);
    this.waveRows = Math.max(1, divideDown(this.slots, this.tilesPerTileRow)) * this.tileM;
    this.sumsInParts = this.itemBytes > 2;
    this.aQuantum = this.findQuantum(this.k);
    this.bQuantum = this.findQuantum(this.n);
    Object.freeze(this);
  }

  vary(changes) {
    return new PanelProblem({ ...this, ...changes });
  }

  /** What tells this problem from others. */
  get key() {
    return [
      this.m,
      this.n,
      this.k,
      this.itemBytes,
      this.tileM,
      this.tileN,
      this.tileK,
      this.slots,
      this.splitItemBytes,
      this.splitsTail,
      this.splitsShort,
      this.staged,
    ].join();
  }

  findQuantum(columns) {
    const slow = !this.staged && columns * this.itemBytes >= 2 * ROW_PART_BYTES;
    return slow ? divideDown(ROW_PART_BYTES, this.itemBytes) : 1;
  }
}

/** The number of rows near `rows` whose waves are fullest; of equal ones the nearest, then least. */
export function roundToWaves(problem, rows, near) {
  const tiles = problem.tilesPerTileRow;
  const { slots, tileM } = problem;
  const wanted = rows / tileM;
  const fewest = Math.max(1, Math.ceil(near[0] * wanted));
  const most = Math.max(fewest, Math.trunc(near[1] * wanted));
  let best = null;
  const consider = (size) => {
    if (size < fewest || size > most) return;
    const blocks = size * tiles;
    const filled = roundHundredths(blocks / (divideUp(blocks, slots) * slots));
    const distance = Math.abs(size * tileM - rows);
    const better =
      best === null ||
      filled > best.filled ||
      (filled === best.filled &&
        (distance < best.distance || (distance === best.distance && size < best.size)));
    if (better) best = { size, filled, distance };
  };
  consider(fewest);
  consider(most);
  const lastWave = divideUp(most * tiles, slots);
  for (let wave = Math.max(1, divideDown(fewest * tiles, slots)); wave <= lastWave; wave += 1) {
    consider(divideDown(wave * slots, tiles));
  }
  return Math.min(problem.m, best.size * tileM);
}

/** Cut M into panels [start, stop): the first, then equal ones, halving down to the last. */
export function cutRows(problem, firstRows, panelRows, lastRows) {
  const panels = [[0, Math.min(firstRows, problem.m)]];
  for (let start = panels[0][1]; start < problem.m;) {
    const left = problem.m - start;
    const halved = Math.max(divideDown(divideDown(left, 2), lastRows), 1) * lastRows;
    const size = Math.min(panelRows, left, halved);
    panels.push([start, start + size]);
    start += size;
  }
  return panels;
}
