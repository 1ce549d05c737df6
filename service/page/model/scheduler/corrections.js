/** Corrections: what earlier runs say of a prediction (scheduler/model/corrections.py, device_runs.py).
 *
 * The service gives the median ratio of each class that has runs. A class learns from those of its
 * device that take about as long, and most from its own product.
 */

import { TABLES } from "../tables.js";

const { LEAST_SECONDS, REACH, UNLIKE, WEIGHED_RUNS } = TABLES.constants;

/** The runs of one machine. */
export class Corrections {
  constructor(entries = []) {
    this.entries = entries;
  }

  /** The factor and the number of runs of a class. */
  find(runClass) {
    const { device, beside, bottleneck, product } = runClass;
    const near = [];
    const others = { sum: 0, weight: 0 };
    const own = { sum: 0, weight: 0 };
    let runs = 0;
    for (const entry of this.entries) {
      const { run_class: one } = entry;
      if (one.device !== device) continue;
      const isSamePart = one.beside === beside;
      const isSameBottleneck = one.bottleneck === bottleneck;
      let likeness = isSamePart ? 1 : one.beside === "" ? UNLIKE : 0;
      if (!isSameBottleneck) likeness *= UNLIKE;
      const distance = Math.abs(Math.log(one.seconds) - Math.log(runClass.seconds));
      const closeness = Math.max(0, 1 - distance / REACH);
      const weight = closeness * likeness * Math.min(entry.runs, WEIGHED_RUNS);
      const value = Math.log(entry.factor);
      const isSameProduct = isSamePart && one.product === product;
      near.push({ value, weight });
      if (isSameProduct) {
        const step = isSameBottleneck ? own : others;
        const most = isSameBottleneck ? entry.runs : WEIGHED_RUNS;
        step.sum += Math.min(entry.runs - 1, most) * value;
        step.weight += Math.min(entry.runs - 1, most);
      }
      if (weight > 0 || isSameProduct) runs += entry.runs;
    }
    let estimate = estimateNearby(near);
    for (const { sum, weight } of [others, own]) estimate = (sum + estimate) / (weight + 1);
    return { factor: Number(Math.exp(estimate).toPrecision(6)), runs };
  }
}

/** The weighted median of the classes nearby, drawn towards none by a prior of one run. */
function estimateNearby(near) {
  const total = near.reduce((sum, { weight }) => sum + weight, 0);
  if (total === 0) return 0;
  near.sort((one, other) => one.value - other.value);
  let sum = 0;
  for (const { value, weight } of near) {
    sum += weight;
    if (sum >= total / 2) return (value * total) / (total + 1);
  }
  return 0;
}

/** The class of a GPU part. */
export function classifyGpuRun(problem, panels, rates, spec, shared) {
  const kernel = `${spec.name} ${spec.tile} ${spec.dtype} on ${panels.slots} slots`;
  const bounds = [
    [kernel, rates.findKernelSeconds(panels, problem.m, problem.n, Math.max(1, problem.k))],
    ["copies in", (problem.m * problem.aRowBytes + problem.bBytes) / rates.inBytesPerSecond],
    ["copies out", (problem.m * problem.cRowBytes) / rates.outBytesPerSecond],
  ];
  const [bottleneck, seconds] = bounds.reduce((most, one) => (one[1] > most[1] ? one : most));
  return {
    device: `gpu from ${problem.memory} memory`,
    beside: shared ? "cpu" : "",
    bottleneck,
    product: nameProduct(problem),
    seconds: rates.callSeconds + seconds,
  };
}

/** The class of a CPU part; `seconds` are those of all rows, uncorrected. */
export function classifyCpuRun(problem, seconds, shared) {
  return {
    device: `cpu in ${problem.dtype}`,
    beside: shared ? `gpu from ${problem.memory} memory` : "",
    bottleneck: "",
    product: nameProduct(problem),
    seconds: Math.max(seconds, LEAST_SECONDS),
  };
}

function nameProduct(problem) {
  return `${problem.m}x${problem.n}x${problem.k} ${problem.dtype}`;
}
