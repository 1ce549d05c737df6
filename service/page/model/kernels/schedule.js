/** The time of a schedule: a recurrence over its steps (kernels/schedule/schedule.py). */

import { divideUp } from "../arithmetic.js";
import { countSteps } from "./tails.js";

/** Rates of a machine's link and of one kernel. Frozen. */
export class Rates {
  constructor(fields) {
    // Time to copy in B, as a share of that over this link: below 1 where GPUs exchange parts of B.
    Object.assign(this, { bShare: 1, ...fields });
    this.key = Object.values(this).join();
    Object.freeze(this);
  }

  vary(changes) {
    const { key: _, ...fields } = this;
    return new Rates({ ...fields, ...changes });
  }

  /** The rates where copies take `factor` times as long. */
  slowCopies(factor) {
    return this.vary({
      inBytesPerSecond: this.inBytesPerSecond / factor,
      outBytesPerSecond: this.outBytesPerSecond / factor,
    });
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

/** Begin and end of every copy in, kernel and copy out; `seconds` is the end of the last. */
export function timeSchedule(problem, steps, rates) {
  const loads = steps.map((step) => countInBytes(problem, step, rates) / rates.inBytesPerSecond);
  const kernels = steps.map((step) => findStepSeconds(problem, step, rates));
  const itemSeconds = problem.itemBytes / rates.outBytesPerSecond;
  const stores = steps.map((step) => (step.last ? step.rows * step.columns * itemSeconds : 0));
  return new Queues(steps, loads, kernels, stores, rates).run();
}

function countInBytes(problem, step, rates) {
  let items = step.rows * step.aDepth;
  if (step.loadsB) items += step.depth * step.columns * rates.bShare;
  return items * problem.itemBytes;
}

function findStepSeconds(problem, step, rates) {
  const { rows, columns, depth } = step;
  let seconds = rates.findKernelSeconds(problem, rows, columns, depth);
  if (!step.first) {
    seconds += (2 * rows * columns * problem.itemBytes) / rates.memoryBytesPerSecond;
  }
  return seconds;
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

/** Simulation of the three queues, from one event to the next. */
class Queues {
  constructor(steps, loads, kernels, stores, rates) {
    Object.assign(this, { steps, loads, kernels, stores, rates });
    // One entry more than steps: the step after the last never begins.
    const blank = () => new Float64Array(steps.length + 1).fill(Infinity);
    this.inBegins = blank();
    this.inEnds = blank();
    this.kernelBegins = blank();
    this.kernelEnds = blank();
    this.outBegins = blank();
    this.outEnds = blank();
    this.leaving = [];
    steps.forEach((step, index) => step.last && this.leaving.push(index));
    this.loaded = this.computed = this.left = 0;
    this.inSeconds = this.outSeconds = 0;
    this.now = rates.callSeconds;
  }

  run() {
    while (this.left < this.leaving.length) {
      this.beginKernel();
      this.beginCopies();
      this.passTime();
    }
    return {
      seconds: this.now,
      copiesIn: this.steps.map((_, index) => [this.inBegins[index], this.inEnds[index]]),
      kernels: this.steps.map((_, index) => [this.kernelBegins[index], this.kernelEnds[index]]),
      copiesOut: this.steps.map((step, index) =>
        step.last ? [this.outBegins[index], this.outEnds[index]] : null,
      ),
    };
  }

  beginKernel() {
    const index = this.computed;
    if (index < this.loaded && this.kernelBegins[index] === Infinity) {
      const follows = this.steps[index].cFollows;
      if (follows < 0 || this.outEnds[follows] <= this.now) {
        this.kernelBegins[index] = this.now;
        this.kernelEnds[index] = this.now + this.kernels[index];
      }
    }
  }

  beginCopies() {
    const { rates, now } = this;
    let index = this.loaded;
    if (index < this.steps.length && this.inBegins[index] === Infinity) {
      const follows = this.steps[index].follows;
      if (follows < 0 || this.kernelEnds[follows] <= now) {
        this.inSeconds = this.loads[index];
        const enqueued = Math.max(now, rates.callSeconds + index * rates.enqueueSeconds);
        this.inBegins[index] = enqueued + rates.copySeconds * (this.inSeconds > 0 ? 1 : 0);
      }
    }
    index = this.leaving[this.left];
    if (index < this.computed && this.outBegins[index] === Infinity) {
      this.outBegins[index] = now + rates.copySeconds;
      this.outSeconds = this.stores[index];
    }
  }

  /** Advance to the next event at the current rates. */
  passTime() {
    const { now, loaded } = this;
    const leaving = this.leaving[this.left];
    const comes = this.inBegins[loaded] <= now;
    const goes = this.outBegins[leaving] <= now;
    const pace = comes && goes ? this.rates.duplex : 1;
    const inNext = comes ? now + this.inSeconds * pace : this.inBegins[loaded];
    const outNext = goes ? now + this.outSeconds * pace : this.outBegins[leaving];
    const then = Math.min(this.kernelEnds[this.computed], inNext, outNext);
    const passed = (then - now) / pace;
    this.now = then;
    if (comes) {
      this.inSeconds -= passed;
      if (inNext <= then) {
        this.inEnds[loaded] = then;
        this.loaded += 1;
      }
    }
    if (goes) {
      this.outSeconds -= passed;
      if (outNext <= then) {
        this.outEnds[leaving] = then;
        this.left += 1;
      }
    }
    if (this.kernelEnds[this.computed] <= then) this.computed += 1;
  }
}
