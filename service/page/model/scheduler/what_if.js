/** What if: a machine's profile with some of its numbers replaced (scheduler/profile/what_if.py).
 *
 * Each number that is replaced says so in its source.
 */

import { Refusal } from "../refusal.js";
import { shareCpu } from "./estimate.js";

/** The profile with these numbers in place of its own; null leaves one as it is.
 *
 * `cpuThreads`: threads of the CPU; what it computes and writes in a second grows with them.
 * `cpuGflops`: rate of the CPU alone, in this element type. `linkRate`: rate of each GPU's link in
 * each direction, GB/s. The result has no corrections from earlier runs, nor joint rates of other
 * links: both are those of the machine as it is.
 */
export function suppose(profile, whatIf, dtype) {
  const { cpuGflops, linkRate } = whatIf;
  // Threads as they are suppose nothing: runs still correct the machine.
  const cpuThreads = whatIf.cpuThreads === profile.cpu.threads ? null : whatIf.cpuThreads;
  if ([cpuThreads, cpuGflops, linkRate].every((one) => one === null)) return profile;
  const links = linkRate === null ? profile.links : setLinks(profile, linkRate);
  let cpu = cpuThreads === null ? profile.cpu : scaleCpu(profile.cpu, cpuThreads);
  if (cpuGflops !== null) cpu = setRate(cpu, dtype, cpuGflops);
  if (cpu.threads !== profile.cpu.threads || links !== profile.links) {
    // Contention was measured with other numbers, if at all.
    const pageable = links.find((link) => link.memory === "pageable");
    cpu = { ...cpu, beside_gpu: shareCpu(cpu.threads, pageable?.in_gbytes_per_second ?? 0) };
  }
  const beside = profile.beside.map((other) => suppose(other, whatIf, dtype));
  const joint = linkRate === null ? profile.joint : [];
  return profile.vary({ cpu, links, beside, joint, corrections: [] });
}

function setLinks({ device, links }, rate) {
  if (links.length === 0)
    throw new Refusal("link_gbytes_per_second", rate, `left out: ${device} has no link`);
  return links.map((link) => ({
    ...link,
    in_gbytes_per_second: rate,
    out_gbytes_per_second: rate,
    source: `rate as asked; the rest ${link.source}`,
  }));
}

function scaleCpu(cpu, threads) {
  if (threads === cpu.threads) return cpu;
  const factor = threads / cpu.threads;
  const rates = cpu.rates.map((rate) => ({
    ...rate,
    gflops: rate.gflops * factor,
    element_seconds: rate.element_seconds / factor,
    write_seconds: rate.write_seconds / factor,
    cached_element_seconds: rate.cached_element_seconds / factor,
    narrow_seconds: rate.narrow_seconds / factor,
    source: `${rate.source}; scaled from ${cpu.threads} to ${threads} threads`,
  }));
  return { ...cpu, threads, rates };
}

/** The CPU with another rate for an element type, narrow products included. */
function setRate(cpu, dtype, gflops) {
  const rates = cpu.rates.map((rate) =>
    rate.dtype === dtype
      ? {
          ...rate,
          gflops,
          alone_gflops: rate.alone_gflops * (gflops / rate.gflops),
          narrow_seconds: rate.narrow_seconds / (gflops / rate.gflops),
          source: `rate as asked; the rest ${rate.source}`,
        }
      : rate,
  );
  return { ...cpu, rates };
}
