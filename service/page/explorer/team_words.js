/** Several GPUs in words. */

import { showSeconds, showWhole } from "../units.js";

/** "GPU 1", by CUDA's index. */
export function nameGpu({ index }) {
  return `GPU ${index}`;
}

/** Groups of parts, or of GPUs, for which `name(part)` is equal. */
export function groupParts(parts, name) {
  const groups = new Map();
  for (const part of parts) {
    const key = name(part);
    groups.set(key, [...(groups.get(key) ?? []), part]);
  }
  return [...groups.values()];
}

/** "GPU 0", "GPU 0, 1 and 2". */
export function nameGroup(parts) {
  const numbers = parts.map(({ index }) => index);
  return `GPU ${numbers.length > 1 ? list(numbers) : numbers[0]}`;
}

/** The part of C of a GPU: "rows 0 to 8,191", or its columns if GPUs divide the columns. */
export function nameShare(plan, part) {
  const { rows, columns, first_row, first_column } = part;
  const [word, first, count] = plan.divides_columns
    ? ["columns", first_column, columns]
    : ["rows", first_row, rows];
  return `${word} ${showWhole(first)} to ${showWhole(first + count - 1)}`;
}

/** The part of each device, if several GPUs have rows; `gain` compares it with one GPU alone. */
export function tellTeam(plan, kernel, gain) {
  const { problem, predicted, f, gpuParts } = plan;
  const rows = f ? `the first ${showWhole(plan.gpu_rows)}` : `all ${showWhole(problem.m)}`;
  const shares = gpuParts.map((part) => (plan.divides_columns ? part.columns : part.rows));
  const word = plan.divides_columns ? "columns" : "rows";
  const each = shares.every((one) => one === shares[0])
    ? `${showWhole(shares[0])} ${word} each`
    : `${list(shares.map(showWhole))} ${word}`;
  const cpu = f
    ? `, in ${showSeconds(predicted.gpu_seconds)}, the CPU the last ${showWhole(f)} in ${showSeconds(predicted.cpu_seconds)}, at the same time`
    : "";
  const exchange = plan.exchanges_b
    ? " The GPUs exchange parts of B, so that it crosses the links once."
    : "";
  return `${gpuParts.length} GPUs compute ${rows} rows with ${kernel}, ${each}${cpu}: ${gain} one GPU alone.${exchange}`;
}

function list(words) {
  return `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}
