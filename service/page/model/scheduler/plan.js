/** The plan: F, the kernel of the GPU part, and predicted times (scheduler/planning/plan.py). */

import { listParts } from "./team.js";

/** Who computes what: one or several GPUs the first M-F rows of C, the CPU the last F. Frozen.
 *
 * `spec`: the kernel, null if F is M. `gpuCurve` and `cpuCurve`: rows → seconds in a split;
 * `gpuAloneCurve` and `cpuAloneCurve`: the same without the other part. `share`: how the CPU is
 * shared in a split. `positions`: positions of the curves' GPUs among the profile's; `gpuShares`:
 * rows of each of them. `oneGpuSeconds`: seconds of one GPU alone, where several have rows.
 */
export class Plan {
  #parts = null;

  constructor(fields) {
    const unset = { spec: null, sms: null, gpuCurve: null, gpuAloneCurve: null, noGpuReason: null };
    Object.assign(this, unset, { gpuShares: [], oneGpuSeconds: null }, fields);
    Object.freeze(this);
  }

  vary(changes) {
    return new Plan({ ...this, ...changes });
  }

  /** Rows of C that the GPUs compute. */
  get gpuRows() {
    return this.problem.m - this.f;
  }

  /** Seconds of the longer part: both run at the same time. */
  get totalSeconds() {
    return Math.max(this.predicted.gpuSeconds, this.predicted.cpuSeconds);
  }

  /** The predicted seconds without corrections. */
  get uncorrectedSeconds() {
    const seconds = this.gpuParts.map(({ seconds, curve }) => seconds / curve.correction.factor);
    if (this.f) {
      const cpu = this.gpuRows ? this.cpuCurve : this.cpuAloneCurve;
      seconds.push(this.predicted.cpuSeconds / cpu.correction.factor);
    }
    return Math.max(...seconds);
  }

  /** The GPUs' curve with this F: beside a CPU part, or alone. */
  findSide(f) {
    return f ? this.gpuCurve : this.gpuAloneCurve;
  }

  /** The parts of the GPUs that have rows, from the first row or column on. */
  get gpuParts() {
    const side = this.findSide(this.f);
    if (side === null || this.gpuRows === 0) return [];
    this.#parts ??= listParts(side, this.positions, this.gpuShares);
    return this.#parts;
  }

  /** Whether the GPUs exchange parts of B, so that it crosses the links once. */
  get exchanges() {
    return this.gpuParts.length > 1 && this.findSide(this.f).exchanges;
  }

  /** Whether the GPUs divide the columns of their rows. */
  get dividesColumns() {
    const parts = this.gpuParts;
    return parts.length > 1 && parts[0].columns[1] !== parts.at(-1).columns[1];
  }

  /** Waves of the GPU part; of all GPUs together. */
  get waves() {
    return countWaves(this.gpuParts);
  }

  /** Waves if the GPUs computed all rows. */
  get wavesGpuOnly() {
    const { gpuAloneCurve: side, positions, problem } = this;
    return side ? countWaves(listParts(side, positions, side.divide(problem.m))) : 0;
  }

  /** Filled share of the GPU part's last wave; the first GPU's of several. */
  get tailUtilization() {
    return this.gpuParts[0]?.tailUtilization ?? 0;
  }

  /** Whether the last wave is split along K, so that it costs about its filled share. */
  get tailSplit() {
    return this.gpuParts[0]?.tailSplit ?? false;
  }

  /** Predicted seconds of one GPU alone; null where no GPU runs this product. */
  get gpuOnlySeconds() {
    if (this.oneGpuSeconds !== null) return this.oneGpuSeconds;
    return this.gpuAloneCurve ? this.gpuAloneCurve.seconds(this.problem.m) : null;
  }

  /** Predicted seconds of the CPU alone. */
  get cpuOnlySeconds() {
    return this.cpuAloneCurve.seconds(this.problem.m);
  }

  /** Predicted seconds with another F. */
  predict(f) {
    const { m } = this.problem;
    if (f === m) return { gpuSeconds: 0, cpuSeconds: this.cpuAloneCurve.seconds(f) };
    const gpuSeconds = this.findSide(f).seconds(m - f);
    return { gpuSeconds, cpuSeconds: this.cpuCurve.seconds(f) };
  }

  /** The same plan with another F and this kernel, which is dropped if F is M. */
  move(f, spec) {
    const rows = this.problem.m - f;
    const side = this.findSide(f);
    const gpuShares = side === null ? [] : side.divide(rows);
    return this.vary({ f, spec: rows ? spec : null, predicted: this.predict(f), gpuShares });
  }

  /** When each queue should be busy: copies in, kernels, copies out, and the CPU.
   *
   * From the schedule's list of steps, scaled to the plan's predicted seconds. With several GPUs, a
   * queue's `name` ends with the GPU's position; `kind` is the name without it. `part` is the GPU's
   * part, null for the CPU.
   */
  listQueues() {
    const parts = this.gpuParts;
    const queues = parts.flatMap((part) => {
      const number = parts.length > 1 ? ` ${part.position}` : "";
      return listPartQueues(part).map(([kind, spans]) => {
        return { name: kind + number, kind, part, spans };
      });
    });
    if (this.f) {
      const span = { begin: 0, end: this.predicted.cpuSeconds, step: null };
      queues.push({ name: "CPU", kind: "CPU", part: null, spans: [span] });
    }
    return queues;
  }
}

/** The three queues of a GPU's part; the rows and columns of each step count from those of C. */
function listPartQueues(part) {
  const { steps, timeline } = part.curve.findTimeline(part.rowCount);
  const scale = part.seconds / timeline.seconds;
  const listSpans = (spans) =>
    spans.flatMap((span, index) => {
      if (span === null) return [];
      const firstRow = part.rows[0] + steps[index].firstRow;
      const firstColumn = part.columns[0] + steps[index].firstColumn;
      const step = { ...steps[index], firstRow, firstColumn };
      return [{ begin: span[0] * scale, end: span[1] * scale, step }];
    });
  return [
    ["copy in", listSpans(timeline.copiesIn)],
    ["kernel", listSpans(timeline.kernels)],
    ["copy out", listSpans(timeline.copiesOut)],
  ];
}

function countWaves(parts) {
  return parts.reduce((sum, part) => sum + part.waves, 0);
}
