/** Corrections: factors on predicted times, learned from earlier runs.
 *
 * As scheduler/model/corrections.py and device_runs.py.
 * The service gives the median ratio of measured to predicted seconds of each class that has runs.
 * They correct products that take about as long on the same device: their own product most.
 */

import { TABLES } from "../tables.js";

const { ASSUMED, CALIBRATED, LEAST_SECONDS, REACH, UNLIKE, WEIGHED_RUNS } = TABLES.constants;

/** The corrections of one profile: {run_class, factor, runs} of each class that has runs.
 *
 * `isCalibrated`: whether the profile was measured, so that fewer runs do not outweigh it.
 */
export class Corrections {
  constructor(entries = [], isCalibrated = false) {
    this.entries = entries;
    this.prior = isCalibrated ? CALIBRATED : ASSUMED;
  }

  /** The factor of a class, and the number of runs that it is from.
   *
   * The median of the classes nearby is drawn towards the product's runs with other kernels, then
   * towards its own.
   */
  find(runClass) {
    const classes = this.entries
      .filter((entry) => entry.run_class.device === runClass.device)
      .map((entry) => weigh(entry, runClass));
    // Several GPUs share the product: no calibration runs such products.
    const isOfTeam = runClass.device.includes(" gpus, ");
    const [nearbyPrior, ownPrior] = isOfTeam ? ASSUMED : this.prior;
    let logFactor = estimateNearby([...classes], nearbyPrior);
    for (const name of ["weightWithOthers", "ownWeight"]) {
      const sum = addUp(classes, (one) => one[name] * one.logRatio);
      const own = addUp(classes, (one) => one[name]);
      logFactor = (sum + ownPrior * logFactor) / (own + ownPrior);
    }
    const runs = addUp(classes, (one) => (one.weight > 0 || one.isSameProduct ? one.runs : 0));
    return { factor: Number(Math.exp(logFactor).toPrecision(6)), runs };
  }
}

/** What a class's runs say of another class of the same device: a log ratio and its weights.
 *
 * `weight` is among the classes nearby. A first run counts only there: it may be an outlier.
 */
function weigh({ run_class: one, factor, runs }, other) {
  const isSamePart = one.beside === other.beside;
  const isSameBottleneck = one.bottleneck === other.bottleneck;
  const isSameProduct = isSamePart && one.product === other.product;
  // What a device took alone is a first guess for its part of a split.
  let likeness = isSamePart ? 1 : one.beside === "" ? UNLIKE : 0;
  if (!isSameBottleneck) likeness *= UNLIKE;
  const distance = Math.abs(Math.log(one.seconds) - Math.log(other.seconds));
  const closeness = Math.max(0, 1 - distance / REACH);
  return {
    logRatio: Math.log(factor),
    runs,
    weight: closeness * likeness * Math.min(runs, WEIGHED_RUNS),
    isSameProduct,
    weightWithOthers: isSameProduct && !isSameBottleneck ? Math.min(runs - 1, WEIGHED_RUNS) : 0,
    ownWeight: isSameProduct && isSameBottleneck ? runs - 1 : 0,
  };
}

/** The weighted median of the classes nearby, drawn towards no correction by a prior of some runs. */
function estimateNearby(classes, prior) {
  const total = addUp(classes, ({ weight }) => weight);
  if (total === 0) return 0;
  classes.sort((one, other) => one.logRatio - other.logRatio);
  let sum = 0;
  for (const { logRatio, weight } of classes) {
    sum += weight;
    if (sum >= total / 2) return logRatio * (total / (total + prior));
  }
  return 0;
}

function addUp(classes, find) {
  return classes.reduce((sum, one) => sum + find(one), 0);
}

/** The class of a GPU part; `shared`: whether the CPU computes other rows at the same time.
 *
 * Kernels are told apart only where they are the bottleneck.
 */
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

/** The class of a CPU part; `seconds`: predicted seconds of all rows, uncorrected. */
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
