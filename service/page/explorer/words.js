/** A plan in words; those for several GPUs are in team_words.js. */

import { showChange, showNumber, showSeconds, showShare, showWhole } from "../units.js";
import { nameGpu, tellTeam } from "./team_words.js";

/** The plan in one line: "52 → 46 waves, the last one 60% full, 649 → 581 ms". */
export function tellPlan(plan) {
  const total = plan.predicted.total_seconds;
  if (plan.kernel === null) return `The CPU computes every row: ${showSeconds(total)}`;
  const before = plan.waves_gpu_only;
  const waves =
    plan.waves === before
      ? count(before, "wave")
      : `${showWhole(before)} → ${count(plan.waves, "wave")}`;
  const split = plan.tail_split ? " and split along K" : "";
  const share = plan.tail_utilization < 1 ? `${showShare(plan.tail_utilization)} ` : "";
  const parts = plan.gpuParts;
  const several = parts.length > 1;
  const gpus = several ? `${parts.length} GPUs, ` : "";
  const whose = several ? `${nameGpu(parts[0])}'s last one` : "the last one";
  const isAlone = plan.f === 0 && !several;
  const seconds = isAlone ? showSeconds(total) : showChange(plan.gpu_only_seconds, total);
  return `${gpus}${waves}, ${whose} ${share}full${split}, ${seconds}`;
}

/** The part of each device, with its kernel and seconds. */
export function tellParts(plan, chosen) {
  const { problem, predicted, f } = plan;
  const speed = plan.gpu_only_seconds / plan.predicted.total_seconds;
  const gain = speed >= 1 ? `${showNumber(speed)} times as fast as` : "slower than";
  if (plan.kernel === null) {
    const gpu = plan.profile.gpus.length > 1 ? "one GPU" : "the GPU";
    const told = chosen.f === f ? "the fastest" : `${gain} ${gpu} alone`;
    return `${capitalize(plan.no_gpu_reason ?? `the CPU alone is ${told}`)}.`;
  }
  const kernel = `${plan.kernel} ${plan.tile.replaceAll("x", "×")}`;
  if (plan.gpuParts.length > 1) return tellTeam(plan, kernel, gain);
  if (f === 0) return `The GPU computes all ${count(problem.m, "row")} with ${kernel}.`;
  const gpu = `the first ${count(plan.gpu_rows, "row")} with ${kernel} in ${showSeconds(predicted.gpu_seconds)}`;
  const cpu = `the last ${showWhole(f)} in ${showSeconds(predicted.cpu_seconds)}`;
  return `The GPU computes ${gpu}, the CPU ${cpu}, at the same time: ${gain} the GPU alone.`;
}

/** The measured times of a job, {id, timings}. */
export function tellJob({ id, timings }) {
  const parts = [
    ["GPU", timings.gpu_seconds],
    ["CPU", timings.cpu_seconds],
  ].filter(([, seconds]) => seconds > 0);
  const told = parts.map(([name, seconds]) => `${name} ${showSeconds(seconds)}`).join(", ");
  return `Job ${id.slice(0, 8)} was measured: ${showSeconds(timings.total_seconds)} with F = ${showWhole(timings.f)} (${told}).`;
}

/** How a plan compares with the model's own choice. */
export function tellChoice(plan, chosen) {
  const own = nameChoice(chosen);
  if (plan.f === chosen.f) return `This is the model's choice, ${own}. ${tellRefused(chosen)}`;
  const more = plan.predicted.total_seconds / chosen.predicted.total_seconds - 1;
  if (Math.abs(more) < 0.0005) return `The model's choice is ${own}, which is as fast.`;
  if (more < 0)
    return `The model's choice is ${own}; this takes ${showNumber(more * -100)}% less time, too little for a split.`;
  return `The model's choice is ${own}; this takes ${showNumber(more * 100)}% more time.`;
}

/** Why the best split is not made: "F = 448 would be 1.08 times as fast; below 1.11 …". */
export function tellRefused({ refused }) {
  if (!refused) return "";
  const { f, speed, least } = refused;
  const digits = [2, 3].find((one) => speed.toFixed(one) !== least.toFixed(one)) ?? 4;
  const [gain, limit] = [speed, least].map((one) => one.toFixed(digits));
  return `F = ${showWhole(f)} would be ${gain} times as fast; below ${limit} no split is made.`;
}

/** A plan's F: "F = 448"; if it is 0 or M, also what that means. */
export function nameChoice({ f, problem, gpuParts }) {
  if (f === 0 && gpuParts.length > 1) return "F = 0 (the GPUs compute every row)";
  if (f === 0) return "F = 0 (the GPU computes every row)";
  if (f === problem.m) return `F = M = ${showWhole(f)} (the CPU computes every row)`;
  return `F = ${showWhole(f)}`;
}

/** "1 wave", "46 waves". */
export function count(number, word) {
  return `${showWhole(number)} ${word}${number === 1 ? "" : "s"}`;
}

function capitalize(text) {
  return text[0].toUpperCase() + text.slice(1);
}
