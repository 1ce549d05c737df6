/** A plan as the drawings read it, from an answer of /v1/plan. Nothing is decided here. */

import { countNames } from "../units.js";

/** The rows of each device, the predicted seconds, and those with another F.
 *
 * `problem` is the product that was asked for. `gpuParts` are the parts of the GPUs that have rows,
 * `curve` is {f, gpu, cpu} by rising F, `queues` are {name, kind, part, spans}, with `part` null for
 * the CPU. `kernel` is null if F is M.
 */
export class Plan {
  constructor(problem, answer) {
    this.problem = problem;
    this.profile = answer.profile;
    this.f = answer.f;
    this.gpuRows = answer.gpu_rows;
    const { kernel: name, tile, accuracy } = answer;
    this.kernel = name && { name, tile, accuracy };
    this.sms = answer.sms;
    this.noGpuReason = answer.no_gpu_reason;
    this.hasGpu = answer.gpu_only_seconds !== null;
    this.gpuCount = answer.profile.gpus.length;
    this.readTimes(answer);
    this.readRefused(answer);
    this.readWaves(answer);
    this.gpuParts = answer.devices.filter(({ grid }) => grid !== null).map(readPart);
    this.dividesColumns = answer.divides_columns;
    this.exchanges = answer.exchanges_b;
    this.queues = readQueues(answer.schedule, this.gpuParts);
  }

  readTimes({ predicted, gpu_only_seconds, cpu_only_seconds, curve, near_f }) {
    const { gpu_seconds: gpuSeconds, cpu_seconds: cpuSeconds } = predicted;
    this.predicted = { gpuSeconds, cpuSeconds };
    this.totalSeconds = predicted.total_seconds;
    this.gpuOnlySeconds = gpu_only_seconds;
    this.cpuOnlySeconds = cpu_only_seconds;
    this.curve = curve.map(({ f, gpu_seconds: gpu, cpu_seconds: cpu }) => ({ f, gpu, cpu }));
    this.nearF = near_f;
  }

  /** A split that promises too little, {f, seconds, speed, least}; null if there is none.
   *
   * `speed`: the time without the split over its time; the least speed that is accepted is `least`.
   */
  readRefused({ refused_split: split, least_gain }) {
    this.refused = split && {
      ...split,
      speed: this.totalSeconds / split.seconds,
      least: 1 / (1 - least_gain),
    };
  }

  readWaves(answer) {
    this.waves = answer.waves;
    this.wavesGpuOnly = answer.waves_gpu_only;
    this.tailUtilization = answer.tail_utilization;
    this.tailSplit = answer.tail_split;
    this.slots = answer.slots;
    this.waveSeconds = answer.wave_seconds;
    this.fOneWaveLess = answer.f_one_wave_less;
  }

  /** The machine's GPU or GPUs in words: "H200", "2 × H200"; "cpu" without one. */
  get machine() {
    const { gpus, device } = this.profile;
    return gpus.length > 1 ? countNames(gpus.map(({ name }) => name)) : device;
  }
}

/** The part of C of one GPU; `rows` and `columns` are its [first, one after the last]. */
function readPart({ device, rows, columns, first_row, first_column, seconds, grid }) {
  const tileRows = Math.ceil(rows / grid.tile_rows);
  return {
    index: Number(device.replace("cuda:", "")),
    rows: [first_row, first_row + rows],
    columns: [first_column, first_column + columns],
    rowCount: rows,
    columnCount: columns,
    seconds,
    tileM: grid.tile_rows,
    tileN: grid.tile_columns,
    tiles: grid.tiles,
    tilesAcross: grid.tiles / tileRows,
    tailTiles: Math.round(grid.tail_utilization * grid.slots),
    slots: grid.slots,
    waves: grid.waves,
    tailSplit: grid.tail_split,
  };
}

/** Rows of a part that this number of waves computes in whole rows of tiles. */
export function countRowsInWaves({ slots, tilesAcross, tileM }, waves) {
  return Math.floor((waves * slots) / tilesAcross) * tileM;
}

function readQueues(schedule, parts) {
  return schedule.map(({ device, queue, spans }) => {
    const part = parts.find(({ index }) => device === `cuda:${index}`) ?? null;
    const kind = part === null ? "CPU" : queue;
    const name = parts.length > 1 && part !== null ? `${kind} ${part.index}` : kind;
    return { name, kind, part, spans: spans.map(readSpan) };
  });
}

/** A span of a queue; `step` is null if it covers several steps. */
function readSpan({ begin_seconds, end_seconds, first_row, rows, columns, depth }) {
  const step = rows === null ? null : { firstRow: first_row, rows, columns, depth };
  return { begin: begin_seconds, end: end_seconds, step };
}
