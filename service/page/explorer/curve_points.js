/** Seconds over F as points: the largest F, and points between those of the answer. */

/** Points at equal distances, in addition to those of the answer, for the CPU's rising line. */
const SAMPLES = 700;

/** The largest F to be drawn: M, or the largest near the split and near what was measured.
 *
 * `range` is "all" or "near".
 */
export function findMost(plan, chosen, range, sweep) {
  const { m } = plan.problem;
  if (range === "all" || !plan.hasGpu) return m;
  const alone = plan.curve[0].gpu_seconds;
  const measured = (sweep?.curve ?? [])
    .filter(([, seconds]) => seconds < alone * 1.3)
    .map(([f]) => f);
  const shown = Math.ceil(1.1 * Math.max(0, ...measured));
  return Math.min(m, Math.max(plan.near_f, chosen.near_f, shown));
}

/** Points over 0…`most`, as those of an answer's curve: these, and some between. */
export function listPoints({ curve, hasGpu }, most) {
  if (!hasGpu) return [{ f: 0, gpu_seconds: 0, cpu_seconds: 0, total_seconds: 0 }, ...curve];
  const wanted = new Set([...curve.map(({ f }) => f).filter((f) => f <= most), most]);
  for (let index = 0; index < SAMPLES; index += 1)
    wanted.add(Math.round((index * most) / SAMPLES));
  return [...wanted].sort((one, other) => one - other).map((f) => findPoint(curve, f));
}

/** Seconds at an F between two points: the GPU's by steps, the CPU's interpolated. */
export function findPoint(curve, f) {
  const next = curve.find((point) => point.f > f) ?? curve.at(-1);
  const last = curve.findLast((point) => point.f <= f) ?? curve[0];
  const share = next.f > last.f ? (f - last.f) / (next.f - last.f) : 0;
  const { gpu_seconds } = last;
  const cpu_seconds = last.cpu_seconds + share * (next.cpu_seconds - last.cpu_seconds);
  return { f, gpu_seconds, cpu_seconds, total_seconds: Math.max(gpu_seconds, cpu_seconds) };
}
