/** The time of a schedule: a recurrence over the list of steps (kernels/schedule/schedule.py). */

import { divideUp } from "../arithmetic.js";
import { TABLES } from "../tables.js";
import { countSteps } from "./tails.js";

const { PAGE_BYTES } = TABLES.constants;

/** Rates of a machine's link and of one kernel. Frozen. */
export class Rates {
  constructor(fields) {
    // peers: other GPUs with which B is exchanged; 0 if all of it is copied in over this link.
    Object.assign(this, { peers: 0, peerBytesPerSecond: Infinity, ...fields });
    this.key = Object.values(this).join();
    Object.freeze(this);
  }

  vary(changes) {
    const { key: _, ...fields } = this;
    return new Rates({ ...fields, ...changes });
  }

  /** Share of B that is copied in over this link. */
  get bShare() {
    return 1 / (1 + this.peers);
  }

  /** The rates where copies take `factor` times as long. */
  slowCopies(factor) {
    return this.vary({
      inBytesPerSecond: this.inBytesPerSecond / factor,
      outBytesPerSecond: this.outBytesPerSecond / factor,
      rowSeconds: this.rowSeconds * factor,
    });
  }

  /** Time that each row of this length adds to a copy of a part of it. */
  findRowSeconds(rowBytes) {
    return this.rowSeconds * Math.min(1, rowBytes / PAGE_BYTES);
  }

  /** Seconds of one launch over `rows` × `columns` of C and a depth of `k`. */
  findKernelSeconds(problem, rows, columns, k) {
    const tiles = divideUp(rows, problem.tileM) * divideUp(columns, problem.tileN);
    let waves = divideUp(tiles, problem.slots);
    if (problem.splitsTail || (problem.splitsShort && tiles < problem.slots)) {
      const steps = divideUp(k, problem.tileK);
      waves = countSteps(tiles, steps, problem.slots) / steps;
    }
    return this.launchSeconds + waves * (this.waveSeconds + k * this.depthSeconds);
  }
}

/** The timeline of a product's steps, in seconds from the call.
 *
 * `copiesIn`, `kernels` and `copiesOut` are [begin, end] of each step, null for a step without a
 * copy out; `seconds` is the end of the last copy out.
 */
export function timeSchedule(problem, steps, rates) {
  const loads = steps.map((step) => findInSeconds(problem, step, rates));
  const kernels = steps.map((step) => findStepSeconds(problem, step, rates));
  const stores = steps.map((step) => (step.last ? findOutSeconds(problem, step, rates) : 0));
  const passes = steps.map((step) => findPassSeconds(problem, step, rates));
  return simulate(steps, loads, passes, kernels, stores, rates);
}

/** Seconds during which at least one copy of a timeline is under way. */
export function countCopyingSeconds(timeline) {
  const copies = [...timeline.copiesIn, ...timeline.copiesOut.filter((span) => span !== null)];
  copies.sort((one, other) => one[0] - other[0] || one[1] - other[1]);
  let copying = 0;
  let until = 0;
  for (const [begin, end] of copies) {
    copying += Math.max(0, end - Math.max(begin, until));
    until = Math.max(until, end);
  }
  return copying;
}

function findInSeconds(problem, { rows, columns, depth, aDepth, loadsB }, rates) {
  const { n, k, itemBytes } = problem;
  const itemSeconds = itemBytes / rates.inBytesPerSecond;
  let seconds = 0;
  if (aDepth > 0) {
    const addedSeconds = aDepth < k ? rates.findRowSeconds(k * itemBytes) : 0;
    seconds += rows * (aDepth * itemSeconds + addedSeconds);
  }
  if (loadsB) {
    const addedSeconds = columns < n ? rates.findRowSeconds(n * itemBytes) : 0;
    seconds += rates.bShare * depth * (columns * itemSeconds + addedSeconds);
  }
  return seconds;
}

/** Seconds in which a step's part of B comes from the other GPUs. */
function findPassSeconds({ itemBytes }, { columns, depth, loadsB }, rates) {
  if (rates.peers === 0 || !loadsB) return 0;
  const itemSeconds = (itemBytes * (1 - rates.bShare)) / rates.peerBytesPerSecond;
  return rates.peers * rates.copySeconds + depth * columns * itemSeconds;
}

function findOutSeconds({ n, itemBytes }, { rows, columns }, rates) {
  const addedSeconds = columns < n ? rates.findRowSeconds(n * itemBytes) : 0;
  return rows * (columns * (itemBytes / rates.outBytesPerSecond) + addedSeconds);
}

function findStepSeconds(problem, step, rates) {
  const { rows, columns, depth } = step;
  let seconds = rates.findKernelSeconds(problem, rows, columns, depth);
  if (!step.first) {
    // C is read and written once more.
    seconds += (2 * rows * columns * problem.itemBytes) / rates.memoryBytesPerSecond;
  }
  return seconds;
}

/** Follow the queues from one event to the next, until the last copy out ends.
 *
 * At most one copy in, one kernel and one copy out are under way at a time. The two copies slow
 * each other, so what is left of each is counted in seconds without the other.
 */
function simulate(steps, loads, passes, kernels, stores, rates) {
  const timeline = { copiesIn: [], kernels: [], copiesOut: steps.map(() => null) };
  const count = steps.length;
  let [loaded, computed, leaves] = [0, 0, findLast(steps, 0)]; // the next step of each queue
  let [inBegin, kernelEnd, outBegin] = [Infinity, Infinity, Infinity]; // nothing is under way
  let [inRest, kernelBegin, outRest] = [0, 0, 0];
  let now = rates.callSeconds;
  let passed = now;
  const complete = []; // when each step has all of its B
  while (leaves < count) {
    if (kernelEnd === Infinity && computed < loaded && steps[computed].cFollows < leaves) {
      kernelBegin = Math.max(now, complete[computed]);
      kernelEnd = kernelBegin + kernels[computed];
    }
    if (inBegin === Infinity && loaded < count && steps[loaded].follows < computed) {
      inRest = loads[loaded];
      const enqueued = Math.max(now, rates.callSeconds + loaded * rates.enqueueSeconds);
      inBegin = inRest > 0 ? enqueued + rates.copySeconds : enqueued;
    }
    if (outBegin === Infinity && leaves < computed) {
      outBegin = now + rates.copySeconds;
      outRest = stores[leaves];
    }
    const comes = inBegin <= now;
    const goes = outBegin <= now;
    const pace = comes && goes ? rates.duplex : 1;
    const inNext = comes ? now + inRest * pace : inBegin;
    const outNext = goes ? now + outRest * pace : outBegin;
    const before = now;
    now = Math.min(kernelEnd, inNext, outNext);
    if (kernelEnd <= now) {
      timeline.kernels.push([kernelBegin, kernelEnd]);
      computed += 1;
      kernelEnd = Infinity;
    }
    if (comes) inRest -= (now - before) / pace;
    if (comes && inNext <= now) {
      timeline.copiesIn.push([inBegin, now]);
      passed = Math.max(now, passed) + passes[loaded];
      complete.push(passed);
      loaded += 1;
      inBegin = Infinity;
    }
    if (goes) outRest -= (now - before) / pace;
    if (goes && outNext <= now) {
      timeline.copiesOut[leaves] = [outBegin, now];
      leaves = findLast(steps, leaves + 1);
      outBegin = Infinity;
    }
  }
  return { ...timeline, seconds: now };
}

/** The first step from `from` on that is the last of its part of C, which is then copied out. */
function findLast(steps, from) {
  let index = from;
  while (index < steps.length && !steps[index].last) index += 1;
  return index;
}
