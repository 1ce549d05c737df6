/** The machines that can be planned for, and the profile of the one that a state names. */

import { MachineProfile } from "./model/scheduler/machine.js";
import { buildCpuProfile, buildPresetProfile, describeGpu } from "./model/scheduler/estimate.js";
import { suppose } from "./model/scheduler/what_if.js";
import { Refusal } from "./model/refusal.js";
import { SWEEPS } from "./model/sweeps.js";
import { TABLES } from "./model/tables.js";
import { countNames } from "./units.js";

const PROFILE = "v1/profile";
const FIRST = "T4";
const FIRST_THREADS = 2;
const GIB = 2 ** 30;

const measured = new Map(SWEEPS.map((one) => [one.name, new MachineProfile(one.profile)]));

/** Machines by groups, as a list to choose from: [group, [[value, label], …]]. */
export function listMachines(service, gpus) {
  const here = service.present ? [["here", "This machine"]] : [];
  if (gpus.length > 1)
    here.push(...gpus.map(({ index, name }) => [`cuda:${index}`, `GPU ${index}: ${name}`]));
  return [
    ["Measured", [...here, ...[...measured].map(([name, profile]) => [name, `${nameMachine(profile)}, measured`])]],
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

/** What a machine computes with: "H200", "2 × H200". */
export function nameMachine({ gpus, device }) {
  return gpus.length > 1 ? countNames(gpus.map((one) => one.device)) : device;
}

/** Whether a machine is named without its CPU, so that the address says how many threads that has. */
export function needsThreads(state) {
  return !isServed(state) && !measured.has(state.device);
}

/** Whether the machine's profile is the service's to tell. */
export function isServed({ device }) {
  return device === "here" || device.startsWith("cuda:");
}

/** The GPUs of the service's machine; null where it does not tell. */
export async function findGpus(service) {
  try {
    return service.present ? (await service.get("v1/devices")).devices : [];
  } catch {
    return null; // the view says why when this machine is asked for
  }
}

/** The device and threads of a page that was opened without any. */
export async function findFirst(service) {
  let profile = null;
  try {
    profile = service.present ? await service.get(PROFILE) : null;
  } catch {
    profile = null; // the view says why when this machine is asked for
  }
  const here = profile !== null && profile.gpu !== null;
  return { device: here ? "here" : FIRST, threads: profile?.cpu.threads ?? FIRST_THREADS };
}

/** The profile of the machine that a state names; a rejection where the service does not tell it.
 *
 * A preset stands beside the CPU of the service's machine, as calibrated, where the service tells it.
 * Exercises have the CPU that is assumed, so that their answers are the same everywhere.
 */
export async function findProfile(state, service) {
  if (!service.present) return buildProfile(state);
  const { device } = state;
  if (isServed(state)) {
    const query = device === "here" ? "" : askFor(device);
    return adapt(state, new MachineProfile(await service.get(PROFILE + query)));
  }
  if (state.exercise !== null || findPreset(device) === undefined) return buildProfile(state);
  try {
    return adapt(state, new MachineProfile(await service.get(PROFILE + askFor(device))));
  } catch (error) {
    if (error instanceof Refusal) throw error;
    return buildProfile(state); // a preset needs no key
  }
}

/** The profile of a machine that need not be asked for. */
export function buildProfile(state) {
  return adapt(state, buildMachine(state));
}

/** The machine with the GPUs and the numbers that a state asks for. */
function adapt(state, profile) {
  const { threads, rate, linkrate, dtype } = state;
  const whatIf = { cpuThreads: threads, cpuGflops: rate, linkRate: linkrate };
  return suppose(takeGpus(state, profile), whatIf, dtype);
}

/** As many GPUs as are asked for: the machine's first ones, or so many of a data sheet's. */
function takeGpus({ device, gpus }, profile) {
  if (gpus === null) return profile;
  const there = profile.gpus.length;
  if (there === 0) throw new Refusal("gpus", gpus, "left out: there is no GPU");
  if (device === "typed" || findPreset(device) !== undefined) return profile.repeatGpu(gpus);
  if (gpus <= there) return profile.takeGpus(gpus);
  const limit = there === 1 ? "1: this machine has one GPU" : `1…${there}, the machine's GPUs`;
  throw new Refusal("gpus", gpus, limit);
}

function askFor(device) {
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

/** The measured sweep over F of a product on a machine; undefined where there is none. */
export function findSweep(state) {
  const results = SWEEPS.find((one) => one.name === state.device);
  if (results === undefined) return undefined;
  const sms = state.sms ?? results.profile.gpu.sm_count;
  return results.sweeps.find(
    (one) =>
      ["m", "n", "k", "dtype", "memory"].every((name) => one[name] === state[name]) &&
      one.sms === sms,
  );
}

/** All sweeps, with the machine that each was measured on. */
export function listSweeps() {
  return SWEEPS.flatMap(({ name, profile, sweeps }) =>
    sweeps.map((sweep) => ({ ...sweep, device: name, whole: sweep.sms === profile.gpu.sm_count })),
  );
}
