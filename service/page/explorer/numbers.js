/** A plan in numbers: a list of them, and a table of the devices. */

import { listFacts, makeRow, makeScrollable, makeTable } from "../table.js";
import { showSeconds, showShare, showWhole } from "../units.js";
import { nameGpu } from "./team_words.js";
import { nameChoice } from "./words.js";

/** The numbers of a plan, each with its name. */
export function listNumbers(plan, chosen) {
  return listFacts([...listShares(plan, chosen), ...(plan.hasGpu ? listWaves(plan) : [])]);
}

/** The table of the part and the seconds of each device; null unless several GPUs have rows. */
export function makeDeviceTable(plan) {
  const { gpuParts, f, problem, predicted } = plan;
  if (gpuParts.length < 2) return null;
  const rows = gpuParts.map((part) => {
    const sizes = [part.rows, part.columns, part.waves].map(showWhole);
    return makeRow(nameGpu(part), [...sizes, showSeconds(part.seconds)]);
  });
  const cpu = [showWhole(f), showWhole(problem.n), "", showSeconds(predicted.cpu_seconds)];
  if (f > 0) rows.push(makeRow("CPU", cpu));
  const table = makeTable({
    caption: "Who computes what",
    className: "parts comparison",
    heads: ["Device", "Rows", "Columns", "Waves", "Seconds"],
    rows,
  });
  return makeScrollable("Who computes what", table);
}

function listShares(plan, chosen) {
  const { predicted, problem } = plan;
  const kernel = plan.kernel
    ? `${plan.kernel} ${plan.tile.replaceAll("x", " × ")}, ${plan.accuracy}`
    : "none";
  return [
    ["F", `${showWhole(plan.f)} of ${showWhole(problem.m)} rows`],
    ["The model's choice", nameChoice(chosen)],
    ["Kernel", kernel],
    [plan.gpuParts.length > 1 ? "GPUs' part" : "GPU part", showSeconds(predicted.gpu_seconds)],
    ["CPU part", showSeconds(predicted.cpu_seconds)],
    ["Both", showSeconds(plan.predicted.total_seconds)],
    ["CPU alone", showSeconds(plan.cpu_only_seconds)],
  ];
}

function listWaves(plan) {
  const { cpu } = plan.profile;
  const several = plan.gpuParts.length > 1;
  const first = several ? nameGpu(plan.gpuParts[0]) : "";
  const split = plan.tail_split ? ", split along K" : "";
  const last = plan.gpu_rows ? `${showShare(plan.tail_utilization)} full${split}` : "none";
  return [
    [several ? "One GPU alone" : "GPU alone", showSeconds(plan.gpu_only_seconds)],
    ["Waves", `${showWhole(plan.waves)}; ${showWhole(plan.waves_gpu_only)} without the CPU`],
    [several ? `Last wave of ${first}` : "Last wave", last],
    [several ? `Slots of ${first}` : "Slots", showWhole(plan.slots)],
    ["One wave", showSeconds(plan.wave_seconds)],
    ["CPU threads in a split", `${cpu.threads_beside_gpu} of ${cpu.threads}`],
  ];
}
