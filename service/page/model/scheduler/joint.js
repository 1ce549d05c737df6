/** Joint rates: what the links of several GPUs reach together (scheduler/profile/joint.py). */

import { roundEven } from "../arithmetic.js";
import { TABLES } from "../tables.js";

const { JOINT_SHARE, JOINT_DUPLEX_SHARE, SOCKET_GPUS } = TABLES.constants;
const { SOCKET_OUT_GBYTES_PER_SECOND, SOCKET_BOTH_GBYTES_PER_SECOND } = TABLES.constants;

/** One link: bytes a second each way alone, and `duplex`, the factor on the time of both. */
export class LinkRates {
  constructor(inBytesPerSecond, outBytesPerSecond, duplex) {
    Object.assign(this, { inBytesPerSecond, outBytesPerSecond, duplex });
  }

  /** Rate of both ways together while both are busy. */
  get bothBytesPerSecond() {
    return (this.inBytesPerSecond + this.outBytesPerSecond) / this.duplex;
  }
}

/** The joint rates of links that were not measured together. */
export function estimateJointLinks(memory, links) {
  let [oneWay, bothWays] = [JOINT_SHARE, JOINT_DUPLEX_SHARE];
  if (memory === "pageable") oneWay = bothWays = 1 / links.length;
  const [into, out, both] = addUp(links);
  const [one, two] = [oneWay, bothWays].map((share) => `${roundEven(share * 100)}%`);
  const sockets = Math.ceil(links.length / SOCKET_GPUS);
  return {
    memory,
    gpus: links.length,
    in_gbytes_per_second: 1e-9 * oneWay * into,
    out_gbytes_per_second: Math.min(1e-9 * oneWay * out, sockets * SOCKET_OUT_GBYTES_PER_SECOND),
    both_gbytes_per_second: Math.min(
      1e-9 * bothWays * both,
      sockets * SOCKET_BOTH_GBYTES_PER_SECOND,
    ),
    source:
      `assumed: ${one} of the sum one way, ${two} both ways, at most ` +
      `${SOCKET_OUT_GBYTES_PER_SECOND} and ${SOCKET_BOTH_GBYTES_PER_SECOND} GB/s for each ` +
      `${SOCKET_GPUS} GPUs`,
  };
}

/** Each link while all are busy: its part of the joint rates, and no more than it has alone. */
export function shareLinks(joint, links) {
  const { in_gbytes_per_second, out_gbytes_per_second, both_gbytes_per_second } = joint;
  const rates = [in_gbytes_per_second, out_gbytes_per_second, both_gbytes_per_second];
  const totals = addUp(links);
  const [inShare, outShare, bothShare] = rates.map((rate, index) =>
    Math.min(1, (1e9 * rate) / totals[index]),
  );
  return links.map((one) => {
    const into = inShare * one.inBytesPerSecond;
    const out = outShare * one.outBytesPerSecond;
    const duplex = Math.max(1, (into + out) / (bothShare * one.bothBytesPerSecond));
    return new LinkRates(into, out, duplex);
  });
}

/** The sums of the rates in, out and both ways. */
function addUp(links) {
  return ["inBytesPerSecond", "outBytesPerSecond", "bothBytesPerSecond"].map((name) =>
    links.reduce((sum, one) => sum + one[name], 0),
  );
}
