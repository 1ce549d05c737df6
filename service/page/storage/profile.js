/** The profile of this machine: the figures that decide plans, and their corrections by runs. */

import { make } from "../dom.js";
import { listFacts, makeRow, makeScrollable, makeTable } from "../table.js";
import { countNames, showNumber, showSpeed, showWhole } from "../units.js";
import { tellSource } from "./devices.js";

/** The profile's source and age, its rates, and its corrections. */
export function tellProfile(profile) {
  const { cpu, kernels, links, corrections } = profile;
  const ways = links.map((link) => [
    `Link, ${link.memory}`,
    `${showNumber(link.in_gbytes_per_second)} GB/s in, ${showNumber(link.out_gbytes_per_second)} out`,
  ]);
  const memory = `${showNumber(cpu.read_gbytes_per_second)} GB/s read, ${showNumber(cpu.write_gbytes_per_second)} written`;
  return [
    listFacts([
      ["Machine", countNames([profile, ...profile.beside].map((one) => one.device))],
      ["Source", tellSource(profile)],
      ["CPU threads", String(cpu.threads)],
      ["Measured kernels", showWhole(kernels.length)],
      ...ways,
      ...tellTogether(profile.joint),
      ["CPU, float32", `${showNumber(cpu.float32_gflops)} GFLOP/s`],
      ["CPU, float64", `${showNumber(cpu.float64_gflops)} GFLOP/s`],
      ["CPU, memory", memory],
    ]),
    make("h3", { textContent: "Corrections by measured runs" }),
    ...tellCorrections(corrections),
  ];
}

/** What the links of all GPUs reach together, if that was measured. */
function tellTogether(joint) {
  if (!joint) return [];
  const rates = `${showNumber(joint.in_gbytes_per_second)} GB/s in, ${showNumber(joint.out_gbytes_per_second)} out, ${showNumber(joint.both_gbytes_per_second)} both ways`;
  const peer = joint.peer_gbytes_per_second;
  const links = [["Links of all GPUs", rates]];
  return peer > 0 ? [...links, ["GPU to GPU", `${showNumber(peer)} GB/s`]] : links;
}

function tellCorrections(corrections) {
  if (corrections.length === 0) {
    const text = "None yet. The measured time of each run corrects later predictions of its kind.";
    return [make("p", { className: "caption", textContent: text })];
  }
  const sorted = corrections.toSorted((one, other) => other.runs - one.runs);
  const table = makeTable({
    caption: "Corrections of predictions",
    isCaptionHidden: true,
    className: "comparison",
    heads: ["Runs on", "Measured vs predicted", "Runs"],
    rows: sorted.map(({ kind, factor, runs }) => makeRow(kind, [showSpeed(factor), showWhole(runs)])),
  });
  return [makeScrollable("Corrections", table)];
}
