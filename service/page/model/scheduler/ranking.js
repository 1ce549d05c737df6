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
 * equal. `beside`: other GPUs that share the rows, on which all candidates run.
 */
export function rankKernels(problem, profile, candidates, sms, beside) {
  const gpus = [profile, ...beside];
  const ranked = candidates.map(({ spec, model }) => {
    const curve =
      beside.length > 0
        ? buildTeamCurve(problem, gpus, spec, sms)
        : buildGpuCurve(problem, profile, spec, model, sms);
    const seconds = findFactor(curve) * curve.kernelSeconds(problem.m);
    const own = spec.name === "cublas" ? 0 : 1;
    return { spec, curve, seconds: Number(seconds.toPrecision(9)), own };
  });
  ranked.sort((one, other) => one.seconds - other.seconds || one.own - other.own);
  // To divide rows among GPUs that differ is a search for each kernel.
  const differ = ranked.some(({ curve }) => beside.length > 0 && !curve.even);
  return ranked.slice(0, differ ? 1 : CONSIDERED).map(({ spec, curve: first }) => {
    const curve = beside.length > 0 ? chooseDivision(first, problem, gpus, spec, sms) : first;
    const aloneSeconds = curve.seconds(curve.m);
    const uncorrectedSeconds = Number((aloneSeconds / findFactor(curve)).toPrecision(9));
    return { spec, curve, gpus, aloneSeconds, uncorrectedSeconds };
  });
}

/** The factor from earlier runs; of several GPUs the largest. */
function findFactor(curve) {
  return Math.max(...listMembers(curve).map((member) => member.correction.factor));
}
