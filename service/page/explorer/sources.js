/** The sources of a plan: the figures that decided it, and where each comes from. */

import { estimateJointLinks, LinkRates } from "../model/scheduler/joint.js";
import { listMembers } from "../model/scheduler/team.js";
import { makeRow, makeTable } from "../table.js";
import { showNumber, showSeconds, showWhole } from "../units.js";
import { groupParts } from "./team_words.js";

/** The table. */
export function makeSourceTable(plan) {
  return makeTable({
    caption: "Where the numbers come from",
    className: "sources",
    heads: ["What", "Figures", "Source"],
    rows: listSources(plan).map(([name, ...cells]) => makeRow(name, cells)),
  });
}

/** The rows of the table, [what, figures, source]. */
function listSources(plan) {
  const { profile, problem, share } = plan;
  const { cpu } = profile;
  const positions = plan.gpuParts.map(({ position }) => position);
  const gpus = (positions.length > 0 ? positions : [0]).flatMap((at) => profile.gpus[at] ?? []);
  const groups = groupParts(gpus, nameFigures);
  const rows = groups.flatMap((group) => {
    const name = groups.length > 1 ? `GPU ${group.map(({ index }) => index).join(", ")}` : "GPU";
    return listGpuRows(plan, name, group);
  });
  if (gpus.length > 1) rows.push(...listJointRows(problem, gpus));
  const rate = profile.findCpuRate(problem.dtype);
  const beside = gpus.length > 0 ? `, ${share.threads} beside the GPU` : "";
  const figures = `${cpu.threads} threads${beside}, ${showNumber(rate.gflops)} GFLOP/s`;
  rows.push(["CPU", figures, rate.source]);
  for (const { factor, runs } of findCorrections(plan))
    if (runs) rows.push(["Correction", `×${factor.toFixed(2)}`, `${runs} runs here`]);
  return rows;
}

/** The figures of a GPU as text, which is equal for GPUs with the same figures. */
function nameFigures({ device, source, links, kernels }) {
  return JSON.stringify([device, source, links, kernels]);
}

/** A GPU, or several with the same figures: the GPU, its kernel and its link. */
function listGpuRows({ spec, problem }, name, [gpu, ...others]) {
  const count = others.length > 0 ? `${others.length + 1} × ` : "";
  const figures = `${count}${gpu.device}, ${gpu.gpu.sm_count} multiprocessors`;
  const rows = [[name, figures, gpu.source]];
  const model = spec && gpu.findKernelModel(spec);
  if (model) {
    const seconds = model.wave_seconds + model.wave_k_seconds * problem.k;
    const waves = `${showWhole(model.slots)} slots, ${showSeconds(seconds)} a wave`;
    rows.push([spec.name, waves, model.source]);
  }
  const link = gpu.findLink(problem.memory);
  rows.push(["Link", `${tellRates(link)}, ${problem.memory} memory`, link.source]);
  return rows;
}

/** The joint rates of the links, and the rate from GPU to GPU. */
function listJointRows({ memory }, gpus) {
  const links = gpus.map((gpu) => {
    const { in_gbytes_per_second: into, out_gbytes_per_second: out, together } = gpu.findLink(memory);
    return new LinkRates(into * 1e9, out * 1e9, 2 * together);
  });
  const joint = gpus[0].findJoint(memory, gpus.length) ?? estimateJointLinks(memory, links);
  const both = `${showNumber(joint.both_gbytes_per_second)} both ways`;
  const rows = [["Links together", `${tellRates(joint)}, ${both}`, joint.source]];
  const peer = gpus[0].peer_gbytes_per_second;
  if (peer) rows.push(["GPU to GPU", `${showNumber(peer)} GB/s`, joint.source]);
  return rows;
}

function tellRates({ in_gbytes_per_second, out_gbytes_per_second }) {
  return `${showNumber(in_gbytes_per_second)} GB/s in, ${showNumber(out_gbytes_per_second)} out`;
}

/** The corrections of the plan's parts, the GPUs' first. */
function findCorrections(plan) {
  const { f, problem, cpuCurve, cpuAloneCurve } = plan;
  if (f === problem.m) return [cpuAloneCurve.correction];
  const members = listMembers(plan.findSide(f)).map(({ correction }) => correction);
  return [...new Set(f ? [...members, cpuCurve.correction] : members)];
}
