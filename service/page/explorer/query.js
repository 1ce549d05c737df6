/** The query of /v1/plan that a state of the page asks, and the fields of the form by its names. */

import { isMeasured, isPreset } from "../machines.js";
import { Refusal } from "../service.js";

/** Fields of the form by the names of a query. */
const MACHINE = {
  cpu_threads: "threads",
  cpu_gflops: "rate",
  link_gbytes_per_second: "linkrate",
};
const DESCRIBED = {
  sm_count: "smcount",
  clock_mhz: "clock",
  memory_clock_mhz: "memclock",
  compute_capability: "capability",
  memory_gib: "memgib",
  link_standard_gbytes_per_second: "link",
  gpus: "gpus",
};
const RENAMED = { ...MACHINE, ...DESCRIBED, devices: "gpus" };

/** The field of the form for a field of a query that was refused. */
export function findField(name) {
  return RENAMED[name] ?? name;
}

/** The query's text. F is left to the model if it is null.
 *
 * `gpus`: the GPUs of the service's machine; undefined if they are not known.
 */
export function writeQuery(state, gpus) {
  const { m, n, k, dtype, memory, kernel, tile, accuracy, sms, f } = state;
  const product = { m, n, k, dtype, memory };
  const options = { kernel: kernel === "auto" ? null : kernel, tile, accuracy, sms, f };
  const fields = { ...product, ...nameMachine(state, gpus), ...pick(state, MACHINE), ...options };
  const asked = Object.entries(fields).filter(([, value]) => value !== null);
  return String(new URLSearchParams(asked));
}

function pick(state, names) {
  return Object.fromEntries(Object.entries(names).map(([name, field]) => [name, state[field]]));
}

/** The fields that name the machine, with as many of its GPUs as the state asks for. */
function nameMachine(state, own) {
  const { device, gpus } = state;
  if (device === "typed") return pick(state, DESCRIBED);
  if (isPreset(device)) return { device: gpus === null ? device : `${device} x${gpus}` };
  const isHere = device === "here";
  const named = { device: isHere ? null : device };
  if (gpus === null) return named;
  if (isMeasured(device)) return { ...named, gpus }; // no recorded query has gpus
  const indices = own?.map(({ index }) => index) ?? [...Array(gpus).keys()];
  const most = isHere ? indices.length : device === "cpu" ? 0 : 1;
  if (gpus <= most) return isHere ? { devices: indices.slice(0, gpus).join(",") } : named;
  const limits = ["left out: there is no GPU", "1: this machine has one GPU"];
  throw new Refusal("gpus", gpus, limits[most] ?? `1…${most}, the machine's GPUs`);
}
