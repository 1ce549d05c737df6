/** The kernels that may compute a product (scheduler/planning/candidates.py). */

import { countHeldSms, findKernel, listKernels } from "../kernels/catalog.js";
import { Refusal } from "../refusal.js";
import { TABLES } from "../tables.js";

const { LOOSER, DEFAULT_ACCURACY, ACCURACIES } = TABLES.constants;

/** The kernels that may compute a product, {spec, model}; empty if only the CPU can.
 *
 * If any of them was measured, those whose times are only assumed are left out.
 */
export function findCandidates(problem, profile, options) {
  checkAccuracy(problem, options);
  let runnable = [];
  for (const spec of findAccurate(problem, options)) {
    const model = profile.findKernelModel(spec);
    if (model !== undefined) runnable.push({ spec, model });
  }
  if (options.kernel !== "auto" && runnable.length === 0 && profile.gpu !== null) {
    throw new Refusal("kernel", options.kernel, `one that ${profile.device} runs`);
  }
  if (options.sms !== null) runnable = findHeld(problem, profile, options, runnable);
  const measured = runnable.filter(({ model }) => !model.assumed);
  return measured.length > 0 ? measured : runnable;
}

/** The positions of a machine's GPUs, the one with the highest peak in float32 first. */
export function findPositions({ gpus }) {
  const rate = (position) => gpus[position].gpu.float32_gflops;
  return gpus.map((_, position) => position).sort((one, other) => rate(other) - rate(one));
}

/** The candidates that other GPUs run, too. */
export function findCommon(candidates, others) {
  return candidates.filter(({ spec }) => others.every((other) => other.findKernelModel(spec)));
}

/** Why there is no candidate. */
export function explainNoKernel(problem, profile, options) {
  let reason = "there is no GPU";
  if (profile.gpu !== null) {
    reason = `no kernel multiplies ${problem.dtype}`;
    if (listKernels(problem.dtype).length > 0) {
      const accuracy = options.accuracy ?? DEFAULT_ACCURACY;
      reason = `no kernel of accuracy ${accuracy} multiplies ${problem.dtype} on ${profile.device}`;
    }
  }
  return `${reason}, so the CPU computes every row`;
}

/** Refuse an accuracy for another element type. */
function checkAccuracy(problem, { accuracy }) {
  if (accuracy === null || ["strict", "library", problem.dtype].includes(accuracy)) return;
  const own = ACCURACIES.includes(problem.dtype) ? [problem.dtype] : [];
  const choices = ["strict", "library", ...own].join(", ");
  throw new Refusal("accuracy", accuracy, `one of ${choices} for a product in ${problem.dtype}`);
}

/** The named entries, or all, that have the element type and the requested accuracy. */
function findAccurate(problem, { kernel, tile, accuracy }) {
  if (kernel === "auto") {
    if (tile !== null) throw new Refusal("tile", tile, 'left out while the kernel is "auto"');
    const allowed = LOOSER[accuracy ?? DEFAULT_ACCURACY];
    return listKernels(problem.dtype).filter(
      (spec) => spec.automatic && allowed.includes(spec.accuracy) && problem.k >= spec.least_k,
    );
  }
  const named =
    tile === null
      ? listKernels(problem.dtype).filter((spec) => spec.name === kernel)
      : [findKernel(kernel, problem.dtype, tile)];
  if (named.length === 0) {
    throw new Refusal("kernel", kernel, `one that multiplies ${problem.dtype}`);
  }
  if (accuracy === null) return named;
  const accurate = named.filter((spec) => LOOSER[accuracy].includes(spec.accuracy));
  if (accurate.length === 0) {
    throw new Refusal("kernel", kernel, `auto, or of accuracy ${accuracy} in ${problem.dtype}`);
  }
  return accurate;
}

/** The candidates that can be held to the requested number of multiprocessors. */
function findHeld(problem, profile, { sms }, candidates) {
  if (profile.gpu === null) throw new Refusal("sms", sms, "left out: there is no GPU");
  const count = profile.gpu.sm_count;
  if (sms < 1 || sms > count) {
    throw new Refusal("sms", sms, `1…${count}, the multiprocessors of ${profile.device}`);
  }
  const able = candidates.filter(({ spec }) => spec.persistent);
  const held = able.filter(({ spec }) => countHeldSms(spec, sms, count) > 0);
  if (held.length > 0) return held;
  if (able.length > 0) {
    const least = Math.min(...able.map(({ spec }) => spec.sms_quantum));
    throw new Refusal("sms", sms, `${least}…${count} with these kernels`);
  }
  throw new Refusal("sms", sms, "left out: no such kernel can be held to some multiprocessors");
}
