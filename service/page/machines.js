/** The machines that can be planned for: the service's, those of data sheets, and recorded ones. */

import { CATALOG } from "./catalog.js";
import { RECORDED } from "./recorded.js";

/** The default machine if there is no service with a GPU. */
const DEFAULT_DEVICE = "T4";
const DEFAULT_THREADS = 2;

/** The machines to choose from, in groups: [group, options]; `device` is chosen now. */
export function listMachines(service, gpus, device) {
  const here = service.present ? [["here", "This machine"]] : [];
  if (gpus.length > 1)
    here.push(...gpus.map(({ index, name }) => [`cuda:${index}`, `GPU ${index}: ${name}`]));
  if (isMeasured(device)) here.push([device, `${RECORDED.machines[device]}, measured`]);
  const others = [
    ["typed", "A GPU typed in"],
    ["cpu", "No GPU"],
  ];
  const groups = [
    ["Machines", here],
    ["GPUs by their data sheets", CATALOG.presets],
    ["Others", others],
  ];
  return groups.filter(([, machines]) => machines.length > 0);
}

/** Whether a state's machine is only a GPU, so that the state must have the CPU threads. */
export function needsThreads({ device }) {
  return device !== "here" && !device.startsWith("cuda:") && !isMeasured(device);
}

/** Whether measured products of a device are recorded. */
export function isMeasured(device) {
  return Object.hasOwn(RECORDED.machines, device);
}

/** Whether a device is a GPU's data sheet. */
export function isPreset(device) {
  return CATALOG.presets.includes(device);
}

/** The service's {devices, cpu_threads}; null without a service, or if it refuses them. */
export async function findOwnMachine(service) {
  try {
    return service.present ? await service.get("v1/devices") : null;
  } catch {
    return null; // the view shows the error when it asks for a plan
  }
}

/** The default machine, {device, threads}: the service's, if it has a GPU. */
export function chooseMachine(own) {
  const device = own?.devices.length > 0 ? "here" : DEFAULT_DEVICE;
  return { device, threads: own?.cpu_threads ?? DEFAULT_THREADS };
}

/** The measured sweep over F of a state's product and machine; undefined if there is none.
 *
 * There is none for another kernel, or for other numbers, than the machine was measured with.
 */
export function findSweep(state) {
  const { kernel, accuracy, threads, rate, linkrate, gpus } = state;
  const isOther = [accuracy, threads, rate, linkrate, gpus].some((one) => one !== null);
  if (kernel !== "auto" || isOther) return undefined;
  const names = ["device", "m", "n", "k", "dtype", "memory", "sms"];
  return RECORDED.sweeps.find((one) => names.every((name) => one[name] === state[name]));
}
