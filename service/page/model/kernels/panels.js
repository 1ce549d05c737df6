/** Panels: how the rows of a product are cut (kernels/schedule/panels.py). */

import { divideDown, divideUp, roundHundredths } from "../arithmetic.js";

/** Everything that decides how a product is cut. Frozen; `vary` makes another one.
 *
 * `waveRows`: rows that the tiles of one wave cover. `sumsInParts`: whether K may be taken in
 * steps.
 */
export class PanelProblem {
  constructor(fields) {
    Object.assign(this, fields);
    this.tilesPerTileRow = divideUp(this.n, this.tileN);
    this.waveRows = Math.max(1, divideDown(this.slots, this.tilesPerTileRow)) * this.tileM;
    this.sumsInParts = this.itemBytes > 2;
    Object.freeze(this);
  }

  vary(changes) {
    return new PanelProblem({ ...this, ...changes });
  }

  /** All fields as text, to be the key of a cache. */
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
}

/** The number of rows near `rows` whose waves are fullest.
 *
 * If several are equally full (to a hundredth), the nearest to `rows`, then the smaller. `near` has
 * the smallest and largest factor on `rows`.
 */
export function roundToWaves(problem, rows, near) {
  const { tilesPerTileRow: tiles, slots, tileM } = problem;
  const wanted = rows / tileM;
  const fewest = Math.max(1, Math.ceil(near[0] * wanted));
  const most = Math.max(fewest, Math.trunc(near[1] * wanted));
  const sizes = new Set([fewest, most]);
  const lastWave = divideUp(most * tiles, slots);
  for (let wave = Math.max(1, divideDown(fewest * tiles, slots)); wave <= lastWave; wave += 1) {
    sizes.add(divideDown(wave * slots, tiles));
  }
  let best = null;
  for (const size of sizes) {
    if (size < fewest || size > most) continue;
    const blocks = size * tiles;
    const filled = roundHundredths(blocks / (divideUp(blocks, slots) * slots));
    const choice = { size, filled, distance: Math.abs(size * tileM - rows) };
    if (best === null || compareChoices(choice, best) < 0) best = choice;
  }
  return Math.min(problem.m, best.size * tileM);
}

function compareChoices(one, other) {
  return other.filled - one.filled || one.distance - other.distance || one.size - other.size;
}

/** Cut M into panels [start, stop): `firstRows`, then `panelRows`, halving down to `lastRows`. */
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
