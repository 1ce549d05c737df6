/** Where a plan's numbers come from: what decided it, its figures, and the source of each. */

import { make } from "../dom.js";
import { showNumber, showSeconds, showWhole } from "../units.js";

/** The table. */
export function listSources(plan) {
  const rows = findSources(plan).map(([name, ...cells]) =>
    make(
      "tr",
      {},
      make("th", { scope: "row", textContent: name }),
      ...cells.map((textContent) => make("td", { textContent })),
    ),
  );
  const heads = ["What", "Figures", "Source"].map((textContent) =>
    make("th", { scope: "col", textContent }),
  );
  return make(
    "table",
    { className: "sources" },
    make("caption", { textContent: "Where the numbers come from" }),
    make("thead", {}, make("tr", {}, ...heads)),
    make("tbody", {}, ...rows),
  );
}

function findSources({ profile, problem, spec, share, ...plan }) {
  const { gpu, cpu } = profile;
  const rows = [];
  if (gpu)
    rows.push(["GPU", `${profile.device}, ${gpu.sm_count} multiprocessors`, profile.source]);
  const model = spec && profile.findKernelModel(spec);
  if (model) {
    const seconds = model.wave_seconds + model.wave_k_seconds * problem.k;
    const figures = `${showWhole(model.slots)} slots, ${showSeconds(seconds)} a wave`;
    rows.push([spec.name, figures, model.source]);
  }
  const link = profile.findLink(problem.memory);
  if (link) {
    const [into, out] = [link.in_gbytes_per_second, link.out_gbytes_per_second].map(showNumber);
    rows.push(["Link", `${into} GB/s in, ${out} out, ${problem.memory} memory`, link.source]);
  }
  const rate = profile.findCpuRate(problem.dtype);
  const beside = link ? `, ${share.threads} beside the GPU` : "";
  const figures = `${cpu.threads} threads${beside}, ${showNumber(rate.gflops)} GFLOP/s`;
  rows.push(["CPU", figures, rate.source]);
  for (const { factor, runs } of findCorrections(plan, problem.m))
    if (runs) rows.push(["Correction", `×${factor.toFixed(2)}`, `${runs} runs here`]);
  return rows;
}

/** What runs say of the plan's parts, the GPU's first. */
function findCorrections({ f, gpuCurve, gpuAloneCurve, cpuCurve, cpuAloneCurve }, m) {
  if (f === m) return [cpuAloneCurve.correction];
  return f ? [gpuCurve.correction, cpuCurve.correction] : [gpuAloneCurve.correction];
}
