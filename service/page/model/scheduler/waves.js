/** Tiles, slots, waves and the tail (scheduler/model/waves.py). */

import { divideDown, divideUp } from "../arithmetic.js";
import { countSteps } from "../kernels/tails.js";

/** How rows of one product become waves on one GPU. */
export class WaveGrid {
  constructor({ n, tileM, tileN, slots }) {
    Object.assign(this, { n, tileM, tileN, slots });
    this.tilesPerTileRow = divideUp(n, tileN);
  }

  /** Blocks that cover `rows` rows of C. */
  countTiles(rows) {
    return divideUp(rows, this.tileM) * this.tilesPerTileRow;
  }

  /** Waves that compute `rows` rows of C: ⌈tiles / slots⌉. */
  countWaves(rows) {
    return divideUp(this.countTiles(rows), this.slots);
  }

  /** Time of `rows` rows, in waves, if the kernel may split the last wave along K. */
  countSplitWaves(rows, stepsK) {
    return countSteps(this.countTiles(rows), stepsK, this.slots) / stepsK;
  }

  /** Filled share of the last wave: 1 if it is full, 0 without rows. */
  findTailUtilization(rows) {
    const tiles = this.countTiles(rows);
    if (tiles === 0) return 0;
    return (tiles - (this.countWaves(rows) - 1) * this.slots) / this.slots;
  }

  /** Largest number of rows in `waves` waves, in whole rows of tiles. */
  findRowsInWaves(waves) {
    return divideDown(waves * this.slots, this.tilesPerTileRow) * this.tileM;
  }
}
