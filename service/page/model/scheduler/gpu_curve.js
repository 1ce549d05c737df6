/** The GPU's cost curve: the fastest schedule of a product, and of fewer of its rows.
 *
 * As scheduler/model/gpu_curve.py. For all rows the fastest schedule is searched. For a few smaller
 * numbers of rows, the knots, the same cut is timed. Between knots the curve rises with the waves.
 */

import { Cache, divideUp } from "../arithmetic.js";
import { fitBuffers } from "../kernels/buffers.js";
import { planSteps, takeWhole } from "../kernels/cuts.js";
import { countCopyingSeconds, timeSchedule } from "../kernels/schedule.js";
import { cutSteps } from "../kernels/steps.js";
import { TABLES } from "../tables.js";
import { WaveGrid } from "./waves.js";

const { KNOTS, PARTS } = TABLES.constants;

const wholes = new Cache(512);
const knotLists = new Cache(512);

/** Rows of C → seconds on the GPU, copies from and to the caller's memory included.
 *
 * `cutRates`: the rates without a CPU part, which decide the cut. `startSeconds`: seconds lost
 * while the CPU part starts. `splitSteps`: steps along K of a tile if the kernel splits the last
 * wave along K, else null.
 */
export class GpuCurve {
  constructor({ problem, rates, memoryBytes, cutRates = rates, startSeconds = 0, correction }) {
    Object.assign(this, { problem, rates, memoryBytes, cutRates, startSeconds, correction });
    this.grid = new WaveGrid(problem);
    this.splitSteps = problem.splitsTail ? divideUp(problem.k, problem.tileK) : null;
  }

  /** Rows of C. */
  get m() {
    return this.problem.m;
  }

  /** Seconds of one wave at this K. */
  get waveSeconds() {
    return this.rates.waveSeconds + this.problem.k * this.rates.depthSeconds;
  }

  /** Share of the time of all rows in which copies are under way, 0…1. */
  get copyingShare() {
    const { timeline } = this.findTimeline(this.problem.m);
    return Math.min(1, countCopyingSeconds(timeline) / timeline.seconds);
  }

  /** The curve with other fields, without a CPU part: its rates decide the cut, too. */
  vary(changes) {
    const rates = changes.rates ?? this.rates;
    return new GpuCurve({ ...this, ...changes, rates, cutRates: rates });
  }

  /** The curve while the CPU part computes other rows. */
  slowByCpuPart({ copyStretch, startSeconds, correction }) {
    return new GpuCurve({
      ...this,
      rates: this.rates.slowCopies(copyStretch),
      startSeconds: this.startSeconds + startSeconds,
      correction,
    });
  }

  /** Rows of each GPU: all of them. */
  divide(rows) {
    return [rows];
  }

  /** The steps of the fastest schedule for `rows` rows, and when each begins and ends. */
  findTimeline(rows) {
    const [outline] = takeOutline(this.problem.vary({ m: rows }), this.memoryBytes);
    const { steps } = planSteps(outline, this.rates, this.memoryBytes);
    return { steps, timeline: timeSchedule(outline, steps, this.rates) };
  }

  /** Seconds of the kernel alone, in one launch. */
  kernelSeconds(rows) {
    if (rows === 0) return 0;
    return this.rates.findKernelSeconds(this.problem, rows, this.problem.n, this.problem.k);
  }

  /** Lower bound of the kernel's seconds in all schedules, of one launch or of several. */
  findLeastKernelSeconds(rows) {
    if (rows === 0 || !this.problem.splitsShort) return this.kernelSeconds(rows);
    // Of several launches, each of less than one wave, all may fill the GPU.
    const waves = this.grid.countTiles(rows) / this.problem.slots;
    return this.rates.launchSeconds + waves * this.waveSeconds;
  }

  /** Lower bound for all schedules: the longest of kernel, copies in and copies out. */
  findLeastSeconds(rows) {
    return this.correction.factor * this.findBound(rows);
  }

  findBound(rows) {
    const { problem, rates } = this;
    const kernelSeconds = this.findLeastKernelSeconds(rows);
    const inBytes = (rows + problem.n * rates.bShare) * problem.k * problem.itemBytes;
    const outBytes = rows * problem.n * problem.itemBytes;
    const copyInSeconds = inBytes / rates.inBytesPerSecond;
    const copyOutSeconds = outBytes / rates.outBytesPerSecond;
    return rates.callSeconds + Math.max(kernelSeconds, copyInSeconds, copyOutSeconds);
  }

  /** Seconds for `rows` rows: 0 without rows, and never less for more rows. */
  seconds(rows) {
    if (rows === 0) return 0;
    // Between knots, copies may rise by more than the waves do.
    const leastSeconds = Math.max(this.findBound(rows), this.startSeconds);
    return this.correction.factor * Math.max(this.findScheduleSeconds(rows), leastSeconds);
  }

  /** Rough number of rows that take `seconds`. */
  estimateRows(seconds) {
    const wanted = seconds / this.correction.factor;
    let before = 0;
    let rows = 0;
    let knotSeconds = 0;
    for ([rows, knotSeconds] of this.timeKnots()) {
      if (knotSeconds > wanted) break;
      before = rows;
    }
    return before + (rows - before) * Math.min(1, wanted / knotSeconds);
  }

  findScheduleSeconds(rows) {
    if (rows === this.problem.m) return this.timeAllRows();
    const knots = this.timeKnots();
    const at = knots.findIndex((knot) => knot[0] >= rows);
    const [untilRows, untilSeconds] = knots[at];
    if (at === 0) return untilSeconds;
    const [fromRows, fromSeconds] = knots[at - 1];
    const [waves, fromWaves, untilWaves] = [rows, fromRows, untilRows].map((one) =>
      this.countWaves(one),
    );
    if (untilWaves === fromWaves) return untilSeconds;
    const share = (waves - fromWaves) / (untilWaves - fromWaves);
    return fromSeconds + share * (untilSeconds - fromSeconds);
  }

  countWaves(rows) {
    if (this.splitSteps === null) return this.grid.countWaves(rows);
    return this.grid.countSplitWaves(rows, this.splitSteps);
  }

  /** All that decides the seconds before correction, as text. */
  get key() {
    return `${this.problem.key} ${this.rates.key} ${this.cutRates.key} ${this.memoryBytes}`;
  }

  /** Seconds of the whole product. */
  timeAllRows() {
    this.allSeconds ??= wholes.find(this.key, () => {
      const [outline, times] = takeOutline(this.problem, this.memoryBytes);
      const { steps } = planSteps(outline, this.cutRates, this.memoryBytes);
      return times * timeSchedule(outline, steps, this.rates).seconds;
    });
    return this.allSeconds;
  }

  /** The knots: numbers of rows and their seconds, both rising; the last has all rows.
   *
   * The seconds are at most those of the next knot.
   */
  timeKnots() {
    this.knots ??= knotLists.find(this.key, () => this.listKnots());
    return this.knots;
  }

  listKnots() {
    const { problem, memoryBytes } = this;
    const [outline, times] = takeOutline(problem, memoryBytes);
    const { cut } = planSteps(outline, this.cutRates, memoryBytes);
    const knots = [[problem.m, this.timeAllRows()]];
    for (let part = KNOTS - 1; part > 0; part -= 1) {
      const [nextRows, nextSeconds] = knots[0];
      const rows = divideUp(problem.m * part, KNOTS);
      if (rows === nextRows) continue;
      const some = outline.vary({ m: divideUp(outline.m * rows, problem.m) });
      const seconds = times * timeRows(some, cut, this.rates, memoryBytes);
      knots.unshift([rows, Math.min(nextSeconds, seconds)]);
    }
    return knots;
  }
}

/** Seconds of a cut chosen for more rows, or of a single step if that is faster. */
function timeRows(problem, cut, rates, memoryBytes) {
  const firstRows = Math.min(problem.m, cut.firstRows);
  const clipped = { ...cut, firstRows, panelRows: Math.min(problem.m, cut.panelRows) };
  const seconds = [clipped, takeWhole(problem)].map((one) => {
    const { steps } = cutSteps(problem, one, memoryBytes);
    return timeSchedule(problem, steps, rates).seconds;
  });
  return Math.min(...seconds);
}

/** A part of the product with fewer steps, and the whole product's time as a multiple of it.
 *
 * With little memory a product has very many steps, which repeat. So some of the rows, of the
 * groups of columns and of K stand for all.
 */
function takeOutline(problem, memoryBytes) {
  const { m, n, k } = problem;
  const rows = Math.max(problem.tileM, divideUp(m, PARTS));
  const buffers = fitBuffers(problem, rows, rows, memoryBytes);
  const some = problem.vary({
    m: Math.min(m, PARTS * buffers.rows),
    n: Math.min(n, 2 * buffers.columns),
    k: Math.min(k, PARTS * buffers.depth),
  });
  return [some, (m / some.m) * (n / some.n) * (k / some.k)];
}
