/** The choice of a plan (scheduler/planning/choice.py).
 *
 * The CPU alone and each candidate kernel with its best F are compared.
 */

import { Refusal } from "../refusal.js";
import { TABLES } from "../tables.js";
import { explainNoKernel, findCandidates, findCommon, findPositions } from "./candidates.js";
import { findRowsWithin } from "./cost.js";
import { buildCpuCurve, findWritingShare } from "./curves.js";
import { Plan } from "./plan.js";
import { rankKernels } from "./ranking.js";
import { splitRows } from "./split.js";
import { findNextCount, listDividing } from "./team.js";
import { shareWithCpu } from "./team_curves.js";

const { SPLIT_GAIN, LEAST_LEAD } = TABLES.constants;

/** The options that leave everything to the planner. */
export const NO_OPTIONS = Object.freeze({
  kernel: "auto",
  tile: null,
  f: "auto",
  accuracy: null,
  sms: null,
});

/** Choose kernel, GPUs and F for a product on a machine; a `Refusal` if an option cannot be met.
 *
 * More GPUs must promise a gain, as a CPU part must.
 */
export function choosePlan(problem, profile, options = NO_OPTIONS) {
  const { m, memory } = problem;
  const { f } = options;
  if (f !== "auto" && !(f >= 0 && f <= m)) {
    throw new Refusal("f", f, `"auto" or 0…${m}, the rows of C`);
  }
  const { one, positions } = chooseFirst(problem, profile, options, findPositions(profile));
  let [best, count, tried] = [one, 1, null];
  const seconds = new Map([[1, one.totalSeconds]]);
  const most = positions.length;
  while ((tried = findNextCount(seconds, count, most, best.f > 0)) !== null) {
    const plan = choosePlanOn(problem, profile, options, positions.slice(0, tried), best.spec);
    seconds.set(tried, plan.gpuParts.length === tried ? plan.totalSeconds : Infinity);
    const [fewer, more] = [Math.min(count, tried), Math.max(count, tried)];
    const gains = seconds.get(more) <= limitSplit(seconds.get(fewer), memory, more - fewer);
    if (gains === tried > count) {
      best = plan.vary({ oneGpuSeconds: one.gpuOnlySeconds });
      count = tried;
    }
  }
  return best;
}

/** The plan on the GPU that is fastest at the product, and all positions, the fastest first.
 *
 * Of GPUs that differ, which is faster depends on the element type: one of each model is tried.
 */
function chooseFirst(problem, profile, options, positions) {
  const nameModel = (position) => JSON.stringify(profile.gpus[position].gpu);
  const models = new Set(positions.map(nameModel));
  if (models.size <= 1) {
    return { one: choosePlanOn(problem, profile, options, positions.slice(0, 1)), positions };
  }
  const plans = new Map();
  const refusals = [];
  for (const model of models) {
    const position = positions.find((at) => nameModel(at) === model);
    try {
      plans.set(model, choosePlanOn(problem, profile, options, [position]));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      refusals.push(error);
    }
  }
  if (plans.size === 0) throw refusals[0];
  const findSeconds = (position) => plans.get(nameModel(position))?.gpuOnlySeconds || Infinity;
  const seconds = new Map(positions.map((position) => [position, findSeconds(position)]));
  const sorted = [...positions].sort((a, b) => compare(seconds.get(a), seconds.get(b)));
  return { one: plans.get(nameModel(sorted[0])), positions: sorted };
}

/** The order of two numbers, which may both be infinite. */
function compare(one, other) {
  return one === other ? 0 : one - other;
}

/** The best plan with these GPUs of a machine, all of them, and its CPU.
 *
 * `spec`: the kernel, if all of these GPUs run it; null to compare all kernels.
 */
export function choosePlanOn(problem, machine, options, positions, spec = null) {
  const { m } = problem;
  const { f } = options;
  const gpus = positions.map((position) => machine.gpus[position]);
  const profile = gpus[0] ?? machine;
  let candidates = findCommon(findCandidates(problem, profile, options), gpus.slice(1));
  const named = candidates.filter((one) => one.spec === spec);
  if (named.length > 0) candidates = named;
  const kernels = rankKernels(problem, profile, candidates, options.sms, gpus.slice(1));
  // All plans that can be the best take about as long as that of the first kernel.
  const copying = kernels.length > 0 ? kernels[0].curve.copyingShare : 1;
  const cpuPlans = listCpuPlans(problem, machine, positions, copying);
  if (candidates.length === 0) {
    const noGpuReason = explainNoKernel(problem, profile, options);
    const isRefused = f !== "auto" && f !== m && gpus.length <= 1;
    if (isRefused) throw new Refusal("f", f, `"auto" or ${m}: ${noGpuReason}`);
    return cpuPlans[0].vary({ noGpuReason });
  }
  let aloneSeconds = Math.min(...kernels.map((kernel) => kernel.aloneSeconds));
  aloneSeconds = Math.min(aloneSeconds, cpuPlans[0].totalSeconds);
  let best = null;
  // First the kernel that would be chosen without corrections: it is replaced only for a lead.
  kernels.sort((one, other) => one.uncorrectedSeconds - other.uncorrectedSeconds);
  for (const kernel of kernels) {
    // The search for the best F is skipped for kernels that cannot win.
    if (best === null || f !== "auto" || canBeat(best, cpuPlans, kernel, aloneSeconds)) {
      const plan = chooseRows(cpuPlans, kernel, options, aloneSeconds);
      best = best === null ? plan : takeFaster(best, plan);
    }
  }
  return best;
}

/** Whether another kernel may be faster, alone or in a split that promises enough. */
function canBeat(plan, cpuPlans, kernel, aloneSeconds) {
  const sooner = plan.totalSeconds;
  const leastSeconds = kernel.curve.findLeastSeconds(plan.problem.m);
  if (leastSeconds <= sooner && kernel.aloneSeconds <= sooner) return true;
  const limit = Math.min(sooner, limitSplit(aloneSeconds, plan.problem.memory));
  return cpuPlans.some((cpuPlan) => canEndWithin(limit, cpuPlan, kernel));
}

/** The best plan with one kernel, or the plan with the given F.
 *
 * A split must promise its gain over the best single device, which may use another kernel.
 */
function chooseRows(cpuPlans, kernel, options, aloneSeconds) {
  const { m, memory } = cpuPlans[0].problem;
  if (options.f !== "auto") {
    const given = cpuPlans.map((cpuPlan) =>
      addKernel(cpuPlan, kernel, options).move(options.f, kernel.spec),
    );
    return takeFastest(given);
  }
  const first = addKernel(cpuPlans[0], kernel, options);
  let chosen = takeFaster(first.move(0, kernel.spec), first);
  let limit = limitSplit(aloneSeconds, memory);
  for (const cpuPlan of cpuPlans) {
    if (!canEndWithin(limit, cpuPlan, kernel)) continue;
    let plan = addKernel(cpuPlan, kernel, options);
    const f = splitRows(m, [...listDividing(plan.gpuCurve), plan.cpuCurve]).at(-1);
    plan = plan.move(f, kernel.spec);
    if (plan.totalSeconds <= limit) {
      chosen = plan;
      limit = plan.totalSeconds;
    }
  }
  return chosen;
}

/** Whether a split may end within `seconds`; cheaper than the search for the best F. */
function canEndWithin(seconds, cpuPlan, kernel) {
  const { m } = cpuPlan.problem;
  const rows = m - findRowsWithin(cpuPlan.cpuCurve, seconds, m);
  if (rows === m || kernel.curve.findLeastSeconds(rows) > seconds) return false;
  return shareKernel(cpuPlan, kernel).seconds(rows) <= seconds;
}

/** The kernel's curve while the CPU part computes other rows. */
function shareKernel({ problem, share }, { curve, gpus, spec }) {
  return shareWithCpu(curve, problem, gpus, spec, share);
}

/** The plan of the CPU alone with this kernel's curves, to be moved to another F. */
function addKernel(cpuPlan, kernel, options) {
  const gpuCurve = shareKernel(cpuPlan, kernel);
  return cpuPlan.vary({ gpuCurve, gpuAloneCurve: kernel.curve, sms: options.sms });
}

/** The faster plan; of equally fast ones the first.
 *
 * One that is slower without corrections must lead by `LEAST_LEAD`: runs are noisy.
 */
function takeFaster(plan, other) {
  const isSwapped = other.uncorrectedSeconds < plan.uncorrectedSeconds;
  const [usual, changed] = isSwapped ? [other, plan] : [plan, other];
  const lead = usual.uncorrectedSeconds < changed.uncorrectedSeconds ? LEAST_LEAD : 0;
  return changed.totalSeconds < usual.totalSeconds * (1 - lead) ? changed : usual;
}

function takeFastest(plans) {
  return plans.reduce((best, plan) => (plan.totalSeconds < best.totalSeconds ? plan : best));
}

/** Longest time with so many further devices, if the product takes `aloneSeconds` without. */
function limitSplit(aloneSeconds, memory, further = 1) {
  return aloneSeconds * (1 - SPLIT_GAIN * (memory === "pageable" ? 2 : 1)) ** further;
}

/** The plan of the CPU alone, once for each way to share the CPU with the GPU. */
function listCpuPlans(problem, profile, positions, copying) {
  const alone = buildCpuCurve(problem, profile);
  const slower = profile.findJoint(problem.memory, positions.length)?.split_stretch ?? 1;
  const writing = findWritingShare(problem, profile);
  const shares = profile.listShares(problem.memory).map((share) => ({
    ...share,
    link_stretch:
      slower * Math.max(share.link_stretch, 1 + (share.write_link_stretch - 1) * writing),
    memory_stretch: slower * share.memory_stretch,
    write_stretch: slower * share.write_stretch,
  }));
  return shares.map(
    (share) =>
      new Plan({
        problem,
        profile,
        positions,
        share,
        f: problem.m,
        predicted: { gpuSeconds: 0, cpuSeconds: alone.seconds(problem.m) },
        cpuCurve: buildCpuCurve(problem, profile, share, copying),
        cpuAloneCurve: alone,
      }),
  );
}
