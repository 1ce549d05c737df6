/** A plan's numbers, each with its name. */

import { make } from "../dom.js";
import { showSeconds, showShare, showWhole } from "../units.js";
import { nameChoice } from "./words.js";

/** The list. */
export function listNumbers(plan, chosen) {
  const rows = [...listShares(plan, chosen), ...(plan.gpuCurve ? listWaves(plan) : [])];
  const items = rows.map(([name, value]) =>
    make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: value })),
  );
  return make("dl", { className: "numbers" }, ...items);
}

function listShares(plan, chosen) {
  const { predicted, problem, spec } = plan;
  const kernel = spec
    ? `${spec.name} ${spec.tile.replaceAll("x", " × ")}, ${spec.accuracy}`
    : "none";
  return [
    ["F", `${showWhole(plan.f)} of ${showWhole(problem.m)} rows`],
    ["The model's choice", nameChoice(chosen)],
    ["Kernel", kernel],
    ["GPU part", showSeconds(predicted.gpuSeconds)],
    ["CPU part", showSeconds(predicted.cpuSeconds)],
    ["Both", showSeconds(plan.totalSeconds)],
    ["CPU alone", showSeconds(plan.cpuOnlySeconds)],
  ];
}

function listWaves(plan) {
  const { grid, waveSeconds } = plan.gpuCurve;
  const split = plan.tailSplit ? ", split along K" : "";
  const last = plan.gpuRows ? `${showShare(plan.tailUtilization)} full${split}` : "none";
  return [
    ["GPU alone", showSeconds(plan.gpuOnlySeconds)],
    ["Waves", `${showWhole(plan.waves)}; ${showWhole(plan.wavesGpuOnly)} without the CPU`],
    ["Last wave", last],
    ["Slots", showWhole(grid.slots)],
    ["One wave", showSeconds(waveSeconds)],
    ["CPU threads in a split", `${plan.share.threads} of ${plan.profile.cpu.threads}`],
  ];
}
