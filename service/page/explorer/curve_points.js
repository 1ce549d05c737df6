/** Seconds over F as points: up to which F, and at which F between. */

import { divideUp } from "../model/arithmetic.js";
import { findRowsWithin } from "../model/scheduler/cost.js";
import { listMembers } from "../model/scheduler/team.js";

/** Points at equal distances, in addition to the steps of the GPU's curve. */
const SAMPLES = 700;

/** The largest F to be drawn: M, or one a little beyond the F at which both parts take as long.
 *
 * `range` is "all" or "near".
 */
export function findMost(plan, chosen, range, sweep) {
  const { m } = plan.problem;
  if (range === "all" || plan.gpuCurve === null) return m;
  const alone = plan.gpuAloneCurve.seconds(m);
  const meeting = findRowsWithin(plan.cpuCurve, alone * 1.1, m);
  const measured = (sweep?.curve ?? [])
    .filter(([, seconds]) => seconds < alone * 1.3)
    .map(([f]) => f);
  const wanted = [
    16,
    Math.ceil(1.35 * meeting),
    Math.ceil(1.25 * Math.max(plan.f, chosen.f)),
    Math.ceil(1.1 * Math.max(0, ...measured)),
  ];
  return Math.min(m, Math.max(...wanted));
}

/** Points {f, gpu, cpu} over 0…`most`, with both ends of each step that can be seen. */
export function listPoints(plan, most) {
  if (!plan.gpuCurve) return listCpuPoints(plan);
  const wanted = new Set([0, plan.f, most]);
  for (let index = 0; index <= SAMPLES; index += 1)
    wanted.add(Math.round((index * most) / SAMPLES));
  for (const f of listBoundaries(plan, most))
    for (const one of [f - 1, f]) if (one >= 0 && one <= most) wanted.add(one);
  return [...wanted]
    .sort((one, other) => one - other)
    .map((f) => {
      const { gpuSeconds, cpuSeconds } = plan.predict(f);
      return { f, gpu: gpuSeconds, cpu: cpuSeconds };
    });
}

/** Each F from which a wave less is needed: on each of several GPUs, if these are alike. */
function listBoundaries({ gpuCurve, problem: { m } }, most) {
  const members = listMembers(gpuCurve);
  const { even = true, columns = [] } = gpuCurve;
  const [{ grid }] = members;
  const dividing = columns.length > 0 ? 1 : members.length; // GPUs that divide the rows
  const [waves, fewest] = [m, m - most].map((rows) => grid.countWaves(divideUp(rows, dividing)));
  if (!even || waves - fewest > SAMPLES) return [];
  const boundaries = [];
  for (let wave = Math.max(1, fewest); wave < waves; wave += 1)
    boundaries.push(m - dividing * grid.findRowsInWaves(wave));
  return boundaries;
}

function listCpuPoints({ problem, cpuAloneCurve }) {
  return [0, problem.m].map((f) => ({ f, gpu: 0, cpu: cpuAloneCurve.seconds(f) }));
}
