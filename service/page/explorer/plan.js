/** A plan as the drawings read it: an answer of /v1/plan, and what follows from it. */

import { countNames } from "../units.js";

/** The answer for a product {m, n, k, dtype, memory}, with these fields in addition.
 *
 * `problem`: the product. `gpuParts`: the parts of the GPUs that have rows. `queues`: {name, kind,
 * part, spans}, with `part` null for the CPU. `machine`: its GPU or GPUs in words, "cpu" without one.
 * `refused`: a split that promises too little, {f, seconds, speed, least}, or null: `speed` is the time
 * without the split over its time, `least` the least that is accepted.
 */
export function readPlan(problem, answer) {
  const { devices, schedule, profile, refused_split: split, predicted } = answer;
  const { gpus, device } = profile;
  const gpuParts = devices.filter(({ grid }) => grid !== null).map(readPart);
  const speed = split && predicted.total_seconds / split.seconds;
  return {
    ...answer,
    problem,
    gpuParts,
    queues: schedule.map((queue) => readQueue(queue, gpuParts)),
    hasGpu: answer.gpu_only_seconds !== null,
    machine: gpus.length > 1 ? countNames(gpus.map(({ name }) => name)) : device,
    refused: split && { ...split, speed, least: 1 / (1 - answer.least_gain) },
  };
}

/** The part of C of one GPU, with its grid, and the tiles of a row and of the last wave. */
function readPart({ grid, ...part }) {
  const index = Number(part.device.replace("cuda:", ""));
  const tilesAcross = grid.tiles / Math.ceil(part.rows / grid.tile_rows);
  const tailTiles = Math.round(grid.tail_utilization * grid.slots);
  return { ...part, ...grid, index, tilesAcross, tailTiles };
}

/** Rows of a part that this number of waves computes in whole rows of tiles. */
export function countRowsInWaves({ slots, tilesAcross, tile_rows: height }, waves) {
  return Math.floor((waves * slots) / tilesAcross) * height;
}

function readQueue({ device, queue, spans }, parts) {
  const part = parts.find(({ index }) => device === `cuda:${index}`) ?? null;
  const kind = part === null ? "CPU" : queue;
  const name = parts.length > 1 && part !== null ? `${kind} ${part.index}` : kind;
  return { name, kind, part, spans };
}
