/** Division of a launch: whole tiles, and a last wave split along K (kernels/gemm/tails.py). */

import { divideUp, divideDown, rootDown } from "../arithmetic.js";
import { TABLES } from "../tables.js";

const { FIX_UP_STEPS } = TABLES.constants;

/** Steps of the slowest block, the cost of splitting included, in the division with the fewest. */
export function countSteps(tiles, stepsK, sms) {
  const waves = divideDown(tiles, sms);
  const rest = tiles - waves * sms;
  const plain = (waves + (rest > 0 ? 1 : 0)) * stepsK;
  if (rest === 0) return plain;
  const blocks = waves ? sms : Math.min(sms, tiles * Math.max(1, rootDown(stepsK)));
  const split = waves * stepsK + divideUp(rest * stepsK, blocks) + FIX_UP_STEPS;
  return Math.min(plain, split);
}
