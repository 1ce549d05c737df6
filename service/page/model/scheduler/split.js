/** The split that finishes first: rows for each device (scheduler/planning/split.py). */

import { findNextBelow } from "../arithmetic.js";
import { TABLES } from "../tables.js";
import { findRowsWithin } from "./cost.js";

const { INTERVAL_SHARE } = TABLES.constants;

/** Divide `m` rows among devices so that the last one finishes as early as possible.
 *
 * A time is feasible if all devices together finish `m` rows within it. The least feasible time is
 * a value of one of the curves. Each device, in order, takes all rows that it finishes within that
 * time: of equally fast splits, the last device has the fewest rows.
 */
export function splitRows(m, curves) {
  let best = Infinity;
  if (curves.length === 2) {
    best = findMeeting(m, ...curves);
  } else {
    let low;
    [low, best] = findInterval(m, curves);
    for (const curve of curves) {
      best = Math.min(best, findLeastFeasible(m, curve, curves, low, best));
    }
  }
  let rest = m;
  return curves.map((curve) => {
    const share = findRowsWithin(curve, best, rest);
    rest -= share;
    return share;
  });
}

/** The least time of two devices: at the rows where their curves cross, or just before. */
function findMeeting(m, first, second) {
  let before = -1;
  let after = m;
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2);
    if (second.seconds(middle) >= first.seconds(m - middle)) after = middle;
    else before = middle;
  }
  if (before < 0) return Math.max(first.seconds(m), second.seconds(0));
  const at = Math.max(first.seconds(m - after), second.seconds(after));
  return Math.min(at, first.seconds(m - before));
}

/** A time that is not feasible, or 0, and one that is, about a millionth longer. */
function findInterval(m, curves) {
  let low = 0;
  let high = Math.min(...curves.map((curve) => curve.seconds(m)));
  while (high - low > INTERVAL_SHARE * high) {
    const middle = (low + high) / 2;
    if (isFeasible(m, curves, middle)) high = middle;
    else low = middle;
  }
  return [low, high];
}

/** The least value of `curve` that is feasible for `curves` together.
 *
 * Infinity if no value between `low`, which is not feasible, and `bound` is.
 */
function findLeastFeasible(m, curve, curves, low, bound) {
  let infeasible = low > 0 ? findRowsWithin(curve, low, m) : -1;
  let feasible = findRowsWithin(curve, findNextBelow(bound), m);
  if (!isFeasible(m, curves, curve.seconds(feasible))) return Infinity;
  while (feasible - infeasible > 1) {
    const middle = Math.floor((infeasible + feasible) / 2);
    if (isFeasible(m, curves, curve.seconds(middle))) feasible = middle;
    else infeasible = middle;
  }
  return curve.seconds(feasible);
}

/** Whether the devices finish `m` rows together within `seconds`. */
function isFeasible(m, curves, seconds) {
  let rest = m;
  for (const curve of curves) {
    if (rest === 0) break;
    rest -= findRowsWithin(curve, seconds, rest);
  }
  return rest === 0;
}
