/** The machines that can be planned for, and the profile of the machine that a state names. */

import { MachineProfile } from "./model/scheduler/machine.js";
import { buildCpuProfile, buildPresetProfile, describeGpu } from "./model/scheduler/estimate.js";
import { suppose } from "./model/scheduler/what_if.js";
import { Refusal } from "./model/refusal.js";
import { SWEEPS } from "./model/sweeps.js";
import { TABLES } from "./model/tables.js";
import { countNames } from "./units.js";

const PROFILE = "v1/profile";
const GIB = 2 ** 30;

/** The machine of an address that names none, if there is no service with a GPU. */
const DEFAULT_DEVICE = "T4";
const DEFAULT_THREADS = 2;

const measured = new Map(SWEEPS.map((one) => [one.name, new MachineProfile(one.profile)]));

/** The machines to choose from, in groups: [group, [[value, label], …]]. */
export function listMachines(service, gpus) {
  const here = service.present ? [["here", "This machine"]] : [];
  if (gpus.length > 1)
    here.push(...gpus.map(({ index, name }) => [`cuda:${index}`, `GPU ${index}: ${name}`]));
  const others = [...measured].map(([name, profile]) => [name, `${nameMachine(profile)}, measured`]);
  return [
    ["Measured", [...here, ...others]],
    ["From data sheets", TABLES.presets.map((one) => [one.name, one.name])],
    [
      "Others",
      [
        ["typed", "A GPU typed in"],
        ["cpu", "No GPU"],
      ],
    ],
  ];
}

/** The GPUs of a machine in words: "H200", "2 × H200"; "cpu" without one. */
export function nameMachine({ gpus, device }) {
  return gpus.length > 1 ? countNames(gpus.map((one) => one.device)) : device;
}

/** Whether a state's machine is only a GPU, so that the state must have the CPU threads. */
export function needsThreads(state) {
  return !isServed(state) && !measured.has(state.device);
}

/** Whether the machine is the service's, or one GPU of it, so that the service has its profile. */
export function isServed({ device }) {
  return device === "here" || device.startsWith("cuda:");
}

/** The GPUs of the service's machine; empty without a service, null if it refuses. */
export async function findGpus(service) {
  try {
    return service.present ? (await service.get("v1/devices")).devices : [];
  } catch {
    return null; // the view shows the error when this machine is chosen
  }
}

/** The machine of an address that names none, {device, threads}: the service's, if it has a GPU. */
export async function findDefaultMachine(service) {
  let profile = null;
  try {
    profile = service.present ? await service.get(PROFILE) : null;
  } catch {
    profile = null; // as above
  }
  return {
    device: profile?.gpu ? "here" : DEFAULT_DEVICE,
    threads: profile?.cpu.threads ?? DEFAULT_THREADS,
  };
}

/** The profile of the machine that a state names; an error if the service refuses it.
 *
 * A GPU of a data sheet has the CPU of the service's machine, as calibrated, if there is a service.
 * In exercises it has the CPU that is assumed, so that the answers are the same everywhere.
 */
export async function findProfile(state, service) {
  if (!service.present) return buildProfile(state);
  const { device } = state;
  if (isServed(state)) {
    const query = device === "here" ? "" : nameDevice(device);
    return adapt(state, new MachineProfile(await service.get(PROFILE + query)));
  }
  if (state.exercise !== null || findPreset(device) === undefined) return buildProfile(state);
  try {
    return adapt(state, new MachineProfile(await service.get(PROFILE + nameDevice(device))));
  } catch (error) {
    if (error instanceof Refusal) throw error;
    return buildProfile(state); // a data sheet needs no key
  }
}

/** The profile of the machine that a state names, without a service. */
export function buildProfile(state) {
  return adapt(state, buildMachine(state));
}

/** The profile with the number of GPUs, and the other numbers, that a state asks for. */
function adapt(state, profile) {
  const { threads, rate, linkrate, dtype } = state;
  const whatIf = { cpuThreads: threads, cpuGflops: rate, linkRate: linkrate };
  return suppose(takeGpus(state, profile), whatIf, dtype);
}

/** The machine with `gpus` GPUs: its first ones, or this many like that of a data sheet. */
function takeGpus({ device, gpus }, profile) {
  if (gpus === null) return profile;
  const count = profile.gpus.length;
  if (count === 0) throw new Refusal("gpus", gpus, "left out: there is no GPU");
  if (device === "typed" || findPreset(device) !== undefined) return profile.repeatGpu(gpus);
  if (gpus <= count) return profile.takeGpus(gpus);
  const limit = count === 1 ? "1: this machine has one GPU" : `1…${count}, the machine's GPUs`;
  throw new Refusal("gpus", gpus, limit);
}

function nameDevice(device) {
  return `?device=${encodeURIComponent(device)}`;
}

function findPreset(name) {
  return TABLES.presets.find((one) => one.name === name);
}

function buildMachine(state) {
  const { device, threads } = state;
  if (measured.has(device)) return measured.get(device);
  if (device === "cpu") return buildCpuProfile(threads);
  const preset = findPreset(device);
  if (preset !== undefined) return buildPresetProfile(preset, threads);
  if (device !== "typed") throw new Refusal("device", device, "a machine of the list");
  return buildPresetProfile(
    describeGpu({
      smCount: state.smcount,
      clockMhz: state.clock,
      memoryClockMhz: state.memclock,
      capability: state.capability.split(".").map(Number),
      memoryBytes: state.memgib * GIB,
      linkRate: state.link,
    }),
    threads,
  );
}

/** The measured sweep over F of a state's product and machine; undefined if there is none.
 *
 * There is none for another kernel, or for other numbers, than the machine was measured with.
 */
export function findSweep(state) {
  const results = SWEEPS.find((one) => one.name === state.device);
  if (results === undefined) return undefined;
  const { kernel, accuracy, threads, rate, linkrate } = state;
  const own = results.profile.cpu.threads;
  const isOther = [accuracy, rate, linkrate].some((one) => one !== null);
  if (kernel !== "auto" || isOther || (threads ?? own) !== own) return undefined;
  const sms = state.sms ?? results.profile.gpu.sm_count;
  return results.sweeps.find(
    (one) =>
      ["m", "n", "k", "dtype", "memory"].every((name) => one[name] === state[name]) &&
      one.sms === sms,
  );
}

/** All sweeps, each with its machine; `whole`: whether all multiprocessors were used. */
export function listSweeps() {
  return SWEEPS.flatMap(({ name, profile, sweeps }) =>
    sweeps.map((sweep) => ({ ...sweep, device: name, whole: sweep.sms === profile.gpu.sm_count })),
  );
}
