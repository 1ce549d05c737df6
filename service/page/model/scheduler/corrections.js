/** Corrections: what earlier runs say of a prediction (scheduler/model/corrections.py).
 *
 * The service gives the factor of each class that has runs; a class that has none has the factor of
 * the narrowest class around it.
 */

import { roundEven } from "../arithmetic.js";

/** The factors of one machine, by class. */
export class Corrections {
  constructor(entries = []) {
    this.entries = new Map(entries.map((entry) => [entry.run_class.join("\n"), entry]));
  }

  /** The factor and the number of runs of a class, given as a path from wide to narrow. */
  find(runClass) {
    if (this.entries.size === 0) return { factor: 1, runs: 0 };
    for (let depth = runClass.length; depth > 0; depth -= 1) {
      const entry = this.entries.get(runClass.slice(0, depth).join("\n"));
      if (entry !== undefined) return { factor: entry.factor, runs: entry.runs };
    }
    return { factor: 1, runs: 0 };
  }
}

/** The class of a GPU part. */
export function classifyGpuRun(problem, panels, rates, spec, shared) {
  const bounds = [
    ["kernel", rates.findKernelSeconds(panels, problem.m, problem.n, Math.max(1, problem.k))],
    ["in", (problem.m * problem.aRowBytes + problem.bBytes) / rates.inBytesPerSecond],
    ["out", (problem.m * problem.cRowBytes) / rates.outBytesPerSecond],
  ];
  const bottleneck = bounds.reduce((most, one) => (one[1] > most[1] ? one : most))[0];
  const kernel = `${spec.name} ${spec.tile} ${spec.dtype} on ${panels.slots} slots`;
  return [
    `gpu ${shared ? "beside a cpu " : ""}from ${problem.memory} memory`,
    nameSize(problem),
    `${kernel}, bound by ${bottleneck}`,
  ];
}

/** The class of a CPU part. */
export function classifyCpuRun(problem, shared) {
  const device = shared ? `cpu beside a gpu from ${problem.memory} memory` : "cpu";
  const shortest = Math.min(problem.m, problem.n, problem.k);
  return [
    `${device} in ${problem.dtype}`,
    nameSize(problem),
    `shortest side 2^${Math.floor(Math.log2(shortest))}`,
  ];
}

/** The bytes of all three matrices, to a power of four. */
function nameSize(problem) {
  const movedBytes = problem.m * (problem.aRowBytes + problem.cRowBytes) + problem.bBytes;
  return `about 4^${roundEven(Math.log2(movedBytes) / 2)} bytes`;
}
