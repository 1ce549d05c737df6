/** The plan that a state asks for. */

import { choosePlan, NO_OPTIONS } from "../model/scheduler/choice.js";
import { GemmProblem } from "../model/scheduler/problem.js";

/** The plan of the state's product with its options; a `Refusal` if there is none. */
export function planState(state, profile) {
  const { kernel, tile, accuracy, sms, f } = state;
  const options = { ...NO_OPTIONS, kernel, tile, accuracy, sms, f: f ?? "auto" };
  const problem = new GemmProblem(state);
  problem.checkFits();
  return choosePlan(problem, profile, options);
}
