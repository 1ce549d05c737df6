/** The curve of several GPUs that share a product (scheduler/planning/team_curves.py).
 *
 * Three ways to share it are compared: rows, of which each GPU fetches all of B; rows, while the
 * GPUs exchange parts of B; and columns, of which each GPU fetches all of A.
 */

import { TABLES } from "../tables.js";
import { classifyGpuRun } from "./corrections.js";
import { buildGpuCurve } from "./curves.js";
import { estimateJointLinks, LinkRates, shareLinks } from "./joint.js";
import { findEvenPart, listMembers, TeamCurve } from "./team.js";

const { ALIKE, LONG_SECONDS, LEAST_GAIN, PART_SECONDS, STEP_COMMANDS, EXCHANGE_WEIGHT } =
  TABLES.constants;

/** The curve of several GPUs that divide rows and fetch all of B each, without a CPU part. */
export function buildTeamCurve(problem, gpus, spec, sms) {
  const even = gpus.slice(1).every((other) => isLike(gpus[0], other, problem.memory));
  const rows = even ? findEvenPart(problem.m, gpus.length, spec.tile_m) : problem.m;
  const members = buildMembers(problem, problem.vary({ m: rows }), gpus, spec, sms);
  return new TeamCurve({ members, m: problem.m, even });
}

/** The fastest way for such a team: as it is, exchanging B, or dividing columns. */
export function chooseDivision(team, problem, gpus, spec, sms) {
  if (!team.even) return team;
  const { m, n } = problem;
  let best = team;
  const peerRate = gpus[0].peer_gbytes_per_second * 1e9;
  // A GPU without rows of C has no part in the product, so it fetches nothing for the others.
  if (problem.memory === "pinned" && peerRate > 0 && team.divide(m).every((rows) => rows > 0)) {
    const exchanging = exchangeB(team, peerRate);
    const limit = Math.min(LONG_SECONDS, (1 - LEAST_GAIN) * team.seconds(m));
    if (exchanging.findLeastSeconds(m) < limit && exchanging.seconds(m) < limit) best = exchanging;
  }
  const columns = findEvenPart(n, gpus.length, spec.tile_n);
  // Where A is as large as B, dividing columns copies no less.
  if (m < n && columns * (gpus.length - 1) < n) {
    const members = buildMembers(problem, problem.vary({ n: columns }), gpus, spec, sms);
    const ranges = [];
    for (let start = 0; start < n; start += columns)
      ranges.push([start, Math.min(start + columns, n)]);
    const byColumns = new TeamCurve({ members, m, even: team.even, columns: ranges });
    const limit = (1 - LEAST_GAIN) * best.seconds(m);
    // The lower bound first: it needs no search for a schedule.
    if (byColumns.findLeastSeconds(m) < limit && byColumns.seconds(m) < limit) return byColumns;
  }
  return best;
}

/** The curve of one GPU or of a team while the CPU computes other rows. */
export function shareWithCpu(side, problem, gpus, spec, share) {
  const members = listMembers(side).map((curve, index) => {
    let runClass = classifyGpuRun(problem, curve.problem, curve.rates, spec, true);
    if (gpus.length > 1) runClass = nameTeam(runClass, gpus, gpus[index]);
    return curve.slowByCpuPart({
      copyStretch: share.link_stretch,
      startSeconds: share.start_seconds,
      correction: gpus[0].corrections.find(runClass),
    });
  });
  return side instanceof TeamCurve ? side.vary({ members: mergeEqual(members) }) : members[0];
}

/** The curve of each GPU for its part, at the rates that it has beside the others. */
function buildMembers(problem, part, gpus, spec, sms) {
  const curves = gpus.map((gpu) =>
    buildGpuCurve(part, gpu, spec, gpu.findKernelModel(spec), sms),
  );
  const shared = findJointRates(problem, gpus, curves);
  const members = curves.map((curve, index) => {
    const runClass = classifyGpuRun(problem, curve.problem, curve.rates, spec, false);
    const correction = gpus[0].corrections.find(nameTeam(runClass, gpus, gpus[index]));
    return curve.vary({ rates: shared[index], correction });
  });
  return mergeEqual(members);
}

/** Whether two GPUs are of one model, with links about as fast. */
function isLike(gpu, other, memory) {
  const [link, otherLink] = [gpu, other].map((one) => one.findLink(memory));
  const isNear = (name) => Math.abs(otherLink[name] - link[name]) <= ALIKE * link[name];
  return (
    JSON.stringify(gpu.gpu) === JSON.stringify(other.gpu) &&
    ["in_gbytes_per_second", "out_gbytes_per_second"].every(isNear)
  );
}

/** The same curves; those that are equal are one object, so that each is asked only once. */
function mergeEqual(members) {
  const found = new Map();
  return members.map((member) => {
    const { startSeconds, correction } = member;
    const key = `${member.key} ${startSeconds} ${correction.factor} ${correction.runs}`;
    if (!found.has(key)) found.set(key, member);
    return found.get(key);
  });
}

/** The class of a member's runs: beside others a GPU has other times than alone. */
function nameTeam(runClass, gpus, gpu) {
  const name = gpus.every((one) => one.device === gpu.device) ? "each" : gpu.device;
  return { ...runClass, device: `${name} of ${gpus.length} gpus, ${runClass.device}` };
}

/** The same GPUs while they exchange parts of B. */
function exchangeB(team, peerBytesPerSecond) {
  const peers = team.members.length - 1;
  const commands = STEP_COMMANDS + EXCHANGE_WEIGHT * (3 + 2 * peers);
  const members = team.members.map((one) => {
    const enqueueSeconds = (commands / STEP_COMMANDS) * one.rates.enqueueSeconds;
    return one.vary({ rates: one.rates.vary({ peers, peerBytesPerSecond, enqueueSeconds }) });
  });
  return team.vary({ members: mergeEqual(members), exchanges: true });
}

/** The rates of each GPU while all of them copy, and one thread enqueues for all. */
function findJointRates(problem, gpus, curves) {
  const rates = curves.map((curve) => curve.rates);
  const links = rates.map(
    (one) => new LinkRates(one.inBytesPerSecond, one.outBytesPerSecond, one.duplex),
  );
  const measured = gpus[0].findJoint(problem.memory, gpus.length);
  const joint = measured ?? estimateJointLinks(problem.memory, links);
  const shared = shareLinks(joint, links);
  return rates.map((one, index) =>
    one.vary({
      inBytesPerSecond: shared[index].inBytesPerSecond,
      outBytesPerSecond: shared[index].outBytesPerSecond,
      duplex: shared[index].duplex,
      enqueueSeconds: gpus.length * one.enqueueSeconds,
      callSeconds: one.callSeconds + (joint.call_seconds ?? (gpus.length - 1) * PART_SECONDS),
    }),
  );
}
