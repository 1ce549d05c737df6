/** The candidates of a product, ranked by time (scheduler/planning/ranking.py).
 *
 * The schedules of the fastest are compared.
 */

import { TABLES } from "../tables.js";
import { buildGpuCurve } from "./curves.js";
import { listMembers } from "./team.js";
import { buildTeamCurve, chooseDivision } from "./team_curves.js";

const { CONSIDERED } = TABLES.constants;

/** The fastest kernels by their own time for all rows, without copies.
 *
 * Of equally fast kernels the library's comes first. Nine digits: times that differ by rounding are
 * equal. A kernel that short launches may make faster than one of these (cuBLAS) is added.
 * `beside`: other GPUs that share the rows, on which all candidates run.
 */
export function rankKernels(problem, profile, candidates, sms, beside) {
  const gpus = [profile, ...beside];
  const ranked = candidates.map(({ spec, model }) => {
    const curve =
      beside.length > 0
        ? buildTeamCurve(problem, gpus, spec, sms)
        : buildGpuCurve(problem, profile, spec, model, sms);
    const seconds = round(findFactor(curve) * curve.kernelSeconds(problem.m));
    const leastSeconds = round(findFactor(curve) * curve.findLeastKernelSeconds(problem.m));
    return { spec, curve, seconds, leastSeconds, own: spec.name === "cublas" ? 0 : 1 };
  });
  ranked.sort((one, other) => one.seconds - other.seconds || one.own - other.own);
  // To divide rows among GPUs that differ is a search for each kernel.
  const differ = ranked.some(({ curve }) => beside.length > 0 && !curve.even);
  const considered = differ ? 1 : CONSIDERED;
  const slowest = ranked[Math.min(considered, ranked.length) - 1];
  const fastest = ranked.filter(
    (one, place) => place < considered || one.leastSeconds < slowest.seconds,
  );
  return fastest.map(({ spec, curve: first }) => {
    const curve = beside.length > 0 ? chooseDivision(first, problem, gpus, spec, sms) : first;
    const aloneSeconds = curve.seconds(curve.m);
    const uncorrectedSeconds = round(aloneSeconds / findFactor(curve));
    return { spec, curve, gpus, aloneSeconds, uncorrectedSeconds };
  });
}

/** Seconds in nine digits. */
function round(seconds) {
  return Number(seconds.toPrecision(9));
}

/** The factor from earlier runs; of several GPUs the largest. */
function findFactor(curve) {
  return Math.max(...listMembers(curve).map((member) => member.correction.factor));
}
