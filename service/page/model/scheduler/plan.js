/** The plan: F, the kernel of the GPU part, and predicted times (scheduler/planning/plan.py). */

import { listParts } from "./team.js";

/** Rows 0…M-F-1 to one or several GPUs, each in one piece, and the last F to the CPU.
 *
 * `positions`: of the curves' GPUs among the machine's; `gpuShares`: rows of each of them.
 * `oneGpuSeconds`: those of one GPU alone, where several have rows.
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

  get gpuRows() {
    return this.problem.m - this.f;
  }

  get totalSeconds() {
    return Math.max(this.predicted.gpuSeconds, this.predicted.cpuSeconds);
  }

  /** The total without what earlier runs say. */
  get uncorrectedSeconds() {
    const seconds = this.gpuParts.map(({ seconds, curve }) => seconds / curve.correction.factor);
    if (this.f) {
      const cpu = this.gpuRows ? this.cpuCurve : this.cpuAloneCurve;
      seconds.push(this.predicted.cpuSeconds / cpu.correction.factor);
    }
    return Math.max(...seconds);
  }

  /** The parts of the GPUs that have rows, from the first row or column on. */
  get gpuParts() {
    const side = this.f ? this.gpuCurve : this.gpuAloneCurve;
    if (side === null || this.gpuRows === 0) return [];
    this.#parts ??= listParts(side, this.positions, this.gpuShares);
    return this.#parts;
  }

  /** Whether the GPUs exchange parts of B, so that it crosses the links once. */
  get exchanges() {
    const side = this.f ? this.gpuCurve : this.gpuAloneCurve;
    return this.gpuParts.length > 1 && side.exchanges;
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

  /** Whether that wave is split along K, and so costs about its filled share. */
  get tailSplit() {
    return this.gpuParts[0]?.tailSplit ?? false;
  }

  /** Predicted seconds of one GPU alone; null where no GPU runs this product. */
  get gpuOnlySeconds() {
    if (this.oneGpuSeconds !== null) return this.oneGpuSeconds;
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
    const rows = this.problem.m - f;
    const side = f ? this.gpuCurve : this.gpuAloneCurve;
    const gpuShares = side === null ? [] : side.divide(rows);
    return this.vary({ f, spec: rows ? spec : null, predicted: this.predict(f), gpuShares });
  }

  /** When each queue should do what, stretched to what the plan predicts.
   *
   * Of several GPUs the name of a queue has the position behind it; `kind` is the name without,
   * `part` the GPU's part, null for the CPU.
   */
  listQueues() {
    const parts = this.gpuParts;
    const queues = parts.flatMap((part) => {
      const number = parts.length > 1 ? ` ${part.position}` : "";
      return listPartQueues(part).map(([kind, spans]) => ({ name: kind + number, kind, part, spans }));
    });
    if (this.f) {
      const span = { begin: 0, end: this.predicted.cpuSeconds, step: null };
      queues.push({ name: "CPU", kind: "CPU", part: null, spans: [span] });
    }
    return queues;
  }
}

/** The three queues of a GPU's part; steps have the rows and columns of C. */
function listPartQueues(part) {
  const { steps, timeline } = part.curve.findTimeline(part.rowCount);
  const scale = part.seconds / timeline.seconds;
  const stretch = (spans) =>
    spans.flatMap((span, index) => {
      if (span === null) return [];
      const firstRow = part.rows[0] + steps[index].firstRow;
      const firstColumn = part.columns[0] + steps[index].firstColumn;
      const step = { ...steps[index], firstRow, firstColumn };
      return [{ begin: span[0] * scale, end: span[1] * scale, step }];
    });
  return [
    ["copy in", stretch(timeline.copiesIn)],
    ["kernel", stretch(timeline.kernels)],
    ["copy out", stretch(timeline.copiesOut)],
  ];
}

function countWaves(parts) {
  return parts.reduce((sum, part) => sum + part.waves, 0);
}
