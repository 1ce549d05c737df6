/** The plan: which rows the GPU takes, with which kernel (scheduler/planning/choice.py). */

import { Refusal } from "../refusal.js";
import { TABLES } from "../tables.js";
import { explainNoKernel, findCandidates, rankKernels } from "./candidates.js";
import { classifyGpuRun } from "./corrections.js";
import { findRowsWithin } from "./cost.js";
import { buildCpuCurve } from "./curves.js";
import { splitRows } from "./split.js";

const { SPLIT_GAIN, LEAST_LEAD } = TABLES.constants;

/** What is left to the planner. */
export const NO_OPTIONS = Object.freeze({
  kernel: "auto",
  tile: null,
  f: "auto",
  accuracy: null,
  sms: null,
});

/** Rows 0…M-F-1 to the GPU, the last F to the CPU. */
export class Plan {
  constructor(fields) {
    const unset = { spec: null, sms: null, gpuCurve: null, gpuAloneCurve: null, noGpuReason: null };
    Object.assign(this, unset, fields);
    Object.freeze(this);
  }

  vary(changes) {
    return new Plan({ ...this, ...changes });
  }

  get gpuRows() {
    return this.problem.m - this.f;
  }

  get totalSeconds() {
    return Math.max(this.predicted.gpuSeconds, this.predicted.cpuSeconds);
  }

  /** The total without what earlier runs say. */
  get uncorrectedSeconds() {
    const { gpuSeconds, cpuSeconds } = this.predicted;
    if (this.f === 0) return this.totalSeconds / this.gpuAloneCurve.correction.factor;
    if (this.f === this.problem.m) return cpuSeconds / this.cpuAloneCurve.correction.factor;
    const gpu = gpuSeconds / this.gpuCurve.correction.factor;
    return Math.max(gpu, cpuSeconds / this.cpuCurve.correction.factor);
  }

  get waves() {
    return this.gpuCurve ? this.gpuCurve.grid.countWaves(this.gpuRows) : 0;
  }

  get wavesGpuOnly() {
    return this.gpuCurve ? this.gpuCurve.grid.countWaves(this.problem.m) : 0;
  }

  /** Filled share of the GPU part's last wave. */
  get tailUtilization() {
    return this.gpuCurve ? this.gpuCurve.grid.findTailUtilization(this.gpuRows) : 0;
  }

  /** Whether that wave is split along K, and so costs about its filled share. */
  get tailSplit() {
    const { gpuCurve: curve, gpuRows: rows } = this;
    if (curve === null || curve.splitSteps === null || rows === 0) return false;
    return curve.grid.countSplitWaves(rows, curve.splitSteps) < this.waves;
  }

  /** Predicted seconds of the GPU alone; null where no GPU runs this product. */
  get gpuOnlySeconds() {
    return this.gpuAloneCurve ? this.gpuAloneCurve.seconds(this.problem.m) : null;
  }

  get cpuOnlySeconds() {
    return this.cpuAloneCurve.seconds(this.problem.m);
  }

  /** What another F would take. */
  predict(f) {
    const { m } = this.problem;
    if (f === m) return { gpuSeconds: 0, cpuSeconds: this.cpuAloneCurve.seconds(f) };
    const gpu = f ? this.gpuCurve : this.gpuAloneCurve;
    return { gpuSeconds: gpu.seconds(m - f), cpuSeconds: this.cpuCurve.seconds(f) };
  }

  /** The same plan with another F, the kernel taking the other rows; without it at F = M. */
  move(f, spec) {
    return this.vary({
      f,
      spec: f < this.problem.m ? spec : null,
      predicted: this.predict(f),
    });
  }

  /** When each queue should do what, stretched to what the plan predicts. */
  listQueues() {
    const queues = [];
    const curve = this.f ? this.gpuCurve : this.gpuAloneCurve;
    if (this.gpuRows && curve) {
      const { steps, timeline } = curve.findTimeline(this.gpuRows);
      const scale = this.predicted.gpuSeconds / timeline.seconds;
      const stretch = (spans) =>
        spans.flatMap((span, index) =>
          span === null
            ? []
            : [{ begin: span[0] * scale, end: span[1] * scale, step: steps[index] }],
        );
      queues.push({ name: "copy in", spans: stretch(timeline.copiesIn) });
      queues.push({ name: "kernel", spans: stretch(timeline.kernels) });
      queues.push({ name: "copy out", spans: stretch(timeline.copiesOut) });
    }
    if (this.f) {
      const span = { begin: 0, end: this.predicted.cpuSeconds, step: null };
      queues.push({ name: "CPU", spans: [span] });
    }
    return queues;
  }
}

/** Choose kernel and F for a product on a machine; a `Refusal` where an option cannot be met. */
export function choosePlan(problem, profile, options = NO_OPTIONS) {
  const { m } = problem;
  const { f } = options;
  if (f !== "auto" && !(f >= 0 && f <= m)) {
    throw new Refusal("f", f, `"auto" or 0…${m}, the rows of C`);
  }
  const candidates = findCandidates(problem, profile, options);
  const kernels = rankKernels(problem, profile, candidates, options.sms);
  const copying = kernels.length > 0 ? kernels[0].curve.copyingShare : 1;
  const ways = listWays(problem, profile, copying);
  if (candidates.length === 0) {
    const noGpuReason = explainNoKernel(problem, profile, options);
    if (f !== "auto" && f !== m) throw new Refusal("f", f, `"auto" or ${m}: ${noGpuReason}`);
    return ways[0].vary({ noGpuReason });
  }
  let aloneSeconds = Math.min(...kernels.map((kernel) => kernel.aloneSeconds));
  aloneSeconds = Math.min(aloneSeconds, ways[0].totalSeconds);
  let best = null;
  kernels.sort((one, other) => one.uncorrectedSeconds - other.uncorrectedSeconds);
  for (const kernel of kernels) {
    if (best === null || f !== "auto" || canBeat(best, ways, kernel, aloneSeconds)) {
      const plan = chooseRows(ways, kernel, options, aloneSeconds);
      best = best === null ? plan : takeFaster(best, plan);
    }
  }
  return best;
}

function canBeat(plan, ways, kernel, aloneSeconds) {
  const sooner = plan.totalSeconds;
  const leastSeconds = kernel.curve.findLeastSeconds(plan.problem.m);
  if (leastSeconds <= sooner && kernel.aloneSeconds <= sooner) return true;
  const limit = Math.min(sooner, limitSplit(aloneSeconds, plan.problem.memory));
  return ways.some((way) => canEndWithin(limit, way, kernel));
}

function chooseRows(ways, kernel, options, aloneSeconds) {
  const { m, memory } = ways[0].problem;
  if (options.f !== "auto") {
    const given = ways.map((way) => takeWay(way, kernel, options).move(options.f, kernel.spec));
    return takeFastest(given);
  }
  const first = takeWay(ways[0], kernel, options);
  let chosen = takeFaster(first.move(0, kernel.spec), first);
  let limit = limitSplit(aloneSeconds, memory);
  for (const way of ways) {
    if (!canEndWithin(limit, way, kernel)) continue;
    let plan = takeWay(way, kernel, options);
    plan = plan.move(splitRows(m, plan.gpuCurve, plan.cpuCurve), kernel.spec);
    if (plan.totalSeconds <= limit) {
      chosen = plan;
      limit = plan.totalSeconds;
    }
  }
  return chosen;
}

function canEndWithin(seconds, way, kernel) {
  const { m } = way.problem;
  const rows = m - findRowsWithin(way.cpuCurve, seconds, m);
  if (rows === m || kernel.curve.findLeastSeconds(rows) > seconds) return false;
  return shareWithCpu(way, kernel).seconds(rows) <= seconds;
}

function shareWithCpu(way, { curve, spec }) {
  const { share, problem, profile } = way;
  const runClass = classifyGpuRun(problem, curve.problem, curve.rates, spec, true);
  return curve.disturb({
    copyStretch: share.link_stretch,
    startSeconds: share.start_seconds,
    correction: profile.corrections.find(runClass),
  });
}

function takeWay(way, kernel, options) {
  const gpuCurve = shareWithCpu(way, kernel);
  return way.vary({ gpuCurve, gpuAloneCurve: kernel.curve, sms: options.sms });
}

/** The faster plan; where only corrections put it ahead, it must lead by `LEAST_LEAD`. */
function takeFaster(plan, other) {
  const isSwapped = other.uncorrectedSeconds < plan.uncorrectedSeconds;
  const [usual, changed] = isSwapped ? [other, plan] : [plan, other];
  const lead = usual.uncorrectedSeconds < changed.uncorrectedSeconds ? LEAST_LEAD : 0;
  return changed.totalSeconds < usual.totalSeconds * (1 - lead) ? changed : usual;
}

function takeFastest(plans) {
  return plans.reduce((best, plan) => (plan.totalSeconds < best.totalSeconds ? plan : best));
}

function limitSplit(aloneSeconds, memory) {
  return aloneSeconds * (1 - SPLIT_GAIN * (memory === "pageable" ? 2 : 1));
}

/** The plan of the CPU alone, once for each way to share it with the GPU. */
function listWays(problem, profile, copying) {
  const alone = buildCpuCurve(problem, profile);
  return profile.listShares(problem.memory).map(
    (share) =>
      new Plan({
        problem,
        profile,
        share,
        f: problem.m,
        predicted: { gpuSeconds: 0, cpuSeconds: alone.seconds(problem.m) },
        cpuCurve: buildCpuCurve(problem, profile, share, copying),
        cpuAloneCurve: alone,
      }),
  );
}
