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
  const [word, [from, until]] = plan.dividesColumns ? ["columns", part.columns] : ["rows", part.rows];
  return `${word} ${showWhole(from)} to ${showWhole(until - 1)}`;
}

/** The part of each device, if several GPUs have rows; `gain` compares it with one GPU alone. */
export function tellTeam(plan, kernel, gain) {
  const { problem, predicted, f, gpuParts } = plan;
  const rows = f ? `the first ${showWhole(plan.gpuRows)}` : `all ${showWhole(problem.m)}`;
  const shares = gpuParts.map((part) => (plan.dividesColumns ? part.columnCount : part.rowCount));
  const word = plan.dividesColumns ? "columns" : "rows";
  const each = shares.every((one) => one === shares[0])
    ? `${showWhole(shares[0])} ${word} each`
    : `${list(shares.map(showWhole))} ${word}`;
  const cpu = f
    ? `, in ${showSeconds(predicted.gpuSeconds)}, the CPU the last ${showWhole(f)} in ${showSeconds(predicted.cpuSeconds)}, at the same time`
    : "";
  const exchange = plan.exchanges
    ? " The GPUs exchange parts of B, so that it crosses the links once."
    : "";
  return `${gpuParts.length} GPUs compute ${rows} rows with ${kernel}, ${each}${cpu}: ${gain} one GPU alone.${exchange}`;
}

function list(words) {
  return `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}
