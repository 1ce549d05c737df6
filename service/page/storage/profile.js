/** The profile of this machine: the figures that decide plans, and their corrections by runs. */

import { make } from "../dom.js";
import { makeRow, makeScrollable, makeTable } from "../table.js";
import { countNames, showNumber, showWhole } from "../units.js";
import { tellSource } from "./devices.js";
import { listFacts } from "./facts.js";

const MOST_CORRECTIONS = 40;

/** The profile's source and age, its rates, and its corrections. */
export function tellProfile(profile) {
  const { cpu, kernels, links, corrections } = profile;
  const rates = cpu.rates
    .filter(({ dtype }) => dtype.startsWith("float"))
    .map(({ dtype, gflops }) => [`CPU, ${dtype}`, `${showNumber(gflops)} GFLOP/s`]);
  const ways = links.map((link) => [
    `Link, ${link.memory}`,
    `${showNumber(link.in_gbytes_per_second)} GB/s in, ${showNumber(link.out_gbytes_per_second)} out`,
  ]);
  return [
    listFacts([
      ["Machine", countNames([profile, ...profile.beside].map((one) => one.device))],
      ["Source", tellSource(profile)],
      ["CPU threads", String(cpu.threads)],
      ["Kernels with staircases", showWhole(kernels.length)],
      ...ways,
      ...tellTogether(profile),
      ...rates,
    ]),
    make("h3", { textContent: "What runs have taught" }),
    ...tellCorrections(corrections),
  ];
}

/** Joint rates of several GPUs, if these were measured. */
function tellTogether({ joint, peer_gbytes_per_second: peer }) {
  const links = joint.map((one) => [
    `Links of ${one.gpus} GPUs, ${one.memory}`,
    `${showNumber(one.in_gbytes_per_second)} GB/s in, ${showNumber(one.out_gbytes_per_second)} out, ${showNumber(one.both_gbytes_per_second)} both ways`,
  ]);
  return peer > 0 ? [...links, ["GPU to GPU", `${showNumber(peer)} GB/s`]] : links;
}

function tellCorrections(corrections) {
  if (corrections.length === 0) {
    const text =
      "Nothing yet: each run compares its time with the prediction and corrects the next.";
    return [make("p", { className: "caption", textContent: text })];
  }
  const sorted = corrections.toSorted((one, other) => other.runs - one.runs);
  const table = makeTable({
    caption: "Corrections of predictions",
    isCaptionHidden: true,
    className: "comparison",
    heads: ["Product", "Computed by", "Time over predicted", "Runs"],
    rows: sorted
      .slice(0, MOST_CORRECTIONS)
      .map(({ run_class: one, factor, runs }) =>
        makeRow(tellProduct(one.product), [tellPart(one), tellFactor(factor), showWhole(runs)]),
      ),
  });
  return [makeScrollable("Corrections", table)];
}

/** "600 × 600 × 600 float64". */
function tellProduct(product) {
  return product.replace(/(\d)x(?=\d)/g, "$1 × ");
}

/** The device, what ran beside it, and the bottleneck. */
function tellPart({ device, beside, bottleneck }) {
  const other = beside ? ` beside a ${beside}` : "";
  return device + other + (bottleneck ? `, bound by ${bottleneck}` : "");
}

/** "+12%", "−3%". */
function tellFactor(factor) {
  const more = 100 * (factor - 1);
  return `${more >= 0 ? "+" : "−"}${showNumber(Math.abs(more))}%`;
}
