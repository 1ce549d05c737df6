/** Plans for states of the page, from the service or recorded. */

import { isMeasured } from "../machines.js";
import { RECORDED } from "../recorded.js";
import { readPlan } from "./plan.js";
import { writeQuery } from "./query.js";

/** Most plans in the cache; the oldest is dropped first. */
const MOST_KEPT = 50;

const UNRECORDED =
  "Only the exercises and the measured products are recorded. For other products, start a service " +
  "(make serve) and choose another device.";

/** The plans of a service, or the recorded ones.
 *
 * Plans are cached until the product or machine changes: later runs may have corrected them.
 */
export class Answers {
  constructor(service) {
    Object.assign(this, { service, kept: new Map(), product: null });
  }

  /** The plan of a state, where the service has these GPUs; a `Refusal` if it is refused. */
  async find(state, gpus) {
    if (this.isRecorded(state)) return findRecorded(state);
    const product = writeQuery({ ...state, f: null }, gpus);
    if (product !== this.product) this.kept.clear();
    this.product = product;
    const { f } = state;
    if (!this.kept.has(f)) this.keep(f, this.ask(state, writeQuery(state, gpus)));
    return this.kept.get(f);
  }

  /** Whether a state's plans are recorded. Exercises are the same everywhere. */
  isRecorded(state) {
    return !this.service.present || state.exercise !== null || isMeasured(state.device);
  }

  keep(f, plan) {
    if (this.kept.size >= MOST_KEPT) this.kept.delete(this.kept.keys().next().value);
    this.kept.set(f, plan);
    plan.catch(() => this.kept.delete(f)); // it may be asked for again
  }

  async ask({ m, n, k, dtype, memory }, query) {
    const answer = await this.service.get(`v1/plan?${query}&drawing=true`);
    return readPlan({ m, n, k, dtype, memory }, answer);
  }
}

/** The recorded plan of a state, with the recorded F that is nearest to that of the state. */
function findRecorded(state) {
  const { m, n, k, dtype, memory, f } = state;
  const found = RECORDED.products[writeQuery({ ...state, f: null })];
  if (found === undefined) throw new Error(UNRECORDED);
  const { choice, moved } = found;
  const distance = (answer) => Math.abs(answer.f - f);
  const answer =
    f === null
      ? choice
      : [choice, ...moved].reduce((near, one) => (distance(one) < distance(near) ? one : near));
  return readPlan({ m, n, k, dtype, memory }, unpack({ ...choice, ...answer }));
}

/** A recorded answer in the service's form: its lists become objects with names. */
function unpack(answer) {
  const { curve, spans } = RECORDED.names;
  const name = (names) => (values) => Object.fromEntries(names.map((one, at) => [one, values[at]]));
  const schedule = answer.schedule.map((queue) => ({
    ...queue,
    spans: queue.spans.map(name(spans)),
  }));
  return { ...answer, schedule, curve: answer.curve.map(name(curve)) };
}
