/** Cost curves: rows of C → seconds on one device, never decreasing (scheduler/model/cost.py). */

import { divideDown, divideUp } from "../arithmetic.js";

/** The largest number of rows, at most `limit`, that a device finishes within `seconds`.
 *
 * From the curve's estimate, steps of doubling length find a bracket, which is then bisected.
 */
export function findRowsWithin(curve, seconds, limit) {
  if (curve.seconds(limit) <= seconds) return limit;
  const start = Math.trunc(Math.min(Math.max(curve.estimateRows(seconds), 0), limit));
  let step = 1;
  let fits;
  let exceeds;
  if (curve.seconds(start) <= seconds) {
    fits = start;
    exceeds = start + step;
    while (exceeds < limit && curve.seconds(exceeds) <= seconds) {
      step *= 2;
      fits = exceeds;
      exceeds += step;
    }
    exceeds = Math.min(exceeds, limit);
  } else {
    fits = start - step;
    exceeds = start;
    while (fits > 0 && curve.seconds(fits) > seconds) {
      step *= 2;
      exceeds = fits;
      fits -= step;
    }
    fits = Math.max(fits, 0);
  }
  while (exceeds - fits > 1) {
    const middle = divideDown(fits + exceeds, 2);
    if (curve.seconds(middle) <= seconds) fits = middle;
    else exceeds = middle;
  }
  return fits;
}

/** The CPU's curve: a line with a start-up cost, rising in steps of `rowQuantum` rows. */
export class CpuCurve {
  constructor(fields) {
    const unset = { startupRows: 0, callSeconds: 0, rowQuantum: 1, vectorSeconds: 0 };
    Object.assign(this, unset, { correction: { factor: 1, runs: 0 } }, fields);
  }

  /** Seconds for `rows` rows. */
  seconds(rows) {
    if (rows === 0) return 0;
    const rounded = divideUp(rows, this.rowQuantum) * this.rowQuantum;
    let seconds = this.callSeconds + (rounded + this.startupRows) * this.rowSeconds;
    if (rows === 1 && this.vectorSeconds) seconds = Math.min(seconds, this.vectorSeconds);
    return this.correction.factor * seconds;
  }

  /** Rough number of rows that take `seconds`. */
  estimateRows(seconds) {
    const rowsSeconds = seconds / this.correction.factor - this.callSeconds;
    return rowsSeconds / this.rowSeconds - this.startupRows;
  }
}
