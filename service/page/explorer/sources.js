/** The sources of a plan: the figures that decided it, and where each comes from. */

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
function listSources({ profile, kernel, gpuParts }) {
  const { gpus, cpu, joint, corrections } = profile;
  const used = gpuParts.map(({ index }) => `cuda:${index}`);
  const shown = used.length > 0 ? gpus.filter(({ device }) => used.includes(device)) : gpus.slice(0, 1);
  const groups = groupParts(shown, nameFigures);
  const rows = groups.flatMap((group) => {
    const indices = group.map(({ device }) => device.replace("cuda:", ""));
    return listGpuRows(groups.length > 1 ? `GPU ${indices.join(", ")}` : "GPU", kernel, group);
  });
  if (joint) rows.push(...listJointRows(joint));
  const beside = shown.length > 0 ? `, ${cpu.threads_beside_gpu} beside the GPU` : "";
  const figures = `${cpu.threads} threads${beside}, ${showNumber(cpu.gflops)} GFLOP/s`;
  rows.push(["CPU", figures, cpu.source]);
  for (const { factor, runs } of corrections)
    rows.push(["Correction", `×${factor.toFixed(2)}`, `${runs} runs here`]);
  return rows;
}

/** The figures of a GPU as text, which is equal for GPUs with the same figures. */
function nameFigures({ device: _, ...figures }) {
  return JSON.stringify(figures);
}

/** A GPU, or several with the same figures: the GPU, its kernel and its link. */
function listGpuRows(name, kernel, [gpu, ...others]) {
  const count = others.length > 0 ? `${others.length + 1} × ` : "";
  const rows = [[name, `${count}${gpu.name}, ${gpu.sm_count} multiprocessors`, gpu.source]];
  if (gpu.kernel) {
    const { slots, wave_seconds, source } = gpu.kernel;
    rows.push([kernel, `${showWhole(slots)} slots, ${showSeconds(wave_seconds)} a wave`, source]);
  }
  const { link } = gpu;
  rows.push(["Link", `${tellRates(link)}, ${link.memory} memory`, link.source]);
  return rows;
}

/** The joint rates of the links, and the rate from GPU to GPU. */
function listJointRows({ source, ...joint }) {
  const both = `${showNumber(joint.both_gbytes_per_second)} both ways`;
  const rows = [["Links together", `${tellRates(joint)}, ${both}`, source]];
  const peer = joint.peer_gbytes_per_second;
  if (peer) rows.push(["GPU to GPU", `${showNumber(peer)} GB/s`, source]);
  return rows;
}

function tellRates({ in_gbytes_per_second, out_gbytes_per_second }) {
  return `${showNumber(in_gbytes_per_second)} GB/s in, ${showNumber(out_gbytes_per_second)} out`;
}
