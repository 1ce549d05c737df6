/** Who computes how many rows: the split that finishes first (scheduler/planning/split.py). */

import { findRowsWithin } from "./cost.js";

/** F: of `m` rows, how many the second device computes so that both end as early as possible. */
export function splitRows(m, gpu, cpu) {
  const best = findMeeting(m, gpu, cpu);
  return m - findRowsWithin(gpu, best, m);
}

/** The least time of two devices: where one curve falls below the other, or just before. */
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
