/** The arena, the disk, the GPUs and CPU of this machine, and the nodes of a cluster. */

import { make } from "../dom.js";
import { listFacts } from "../table.js";
import { showAge, showBytes, showSeconds, showShare, showSpeed, showWhole } from "../units.js";
import { makeMeter } from "./meter.js";

/** The arena: its meter and its figures. */
export function tellArena(arena) {
  if (arena === null)
    return [make("p", { textContent: "The arena is switched off (WAVETRIM_ARENA_BYTES)." })];
  const { limit_bytes: limit, made_bytes: made, used_bytes: used } = arena;
  const told = `${showBytes(used)} in use, ${showBytes(made)} allocated, at most ${showBytes(limit)}`;
  const amounts = [
    ["made", made],
    ["used", used],
  ];
  return [
    makeMeter(amounts, limit, told),
    make("p", { className: "caption", textContent: `${told}.` }),
    listFacts([
      ["Page-locked", showBytes(arena.locked_bytes)],
      ["Slabs", showWhole(arena.slabs)],
      ["Allocations", showWhole(arena.extents)],
      ["Matrices dropped from memory", showWhole(arena.evictions)],
      ["Requests refused for lack of memory", showWhole(arena.refusals)],
      ["Leases", `${showWhole(arena.leases)}, ${showBytes(arena.leased_bytes)}`],
    ]),
  ];
}

/** How full the disk is. */
export function tellDisk(disk) {
  if (disk === null) return [make("p", { textContent: "The disk does not answer." })];
  const { size_bytes: size, used_bytes: used, free_bytes: free, limit_bytes: limit } = disk;
  return [
    listFacts([
      ["Used, by all files", `${showShare(used / size)} of ${showBytes(size)}`],
      ["Free for matrices", showBytes(free)],
      ["All matrices at most", showBytes(limit)],
    ]),
  ];
}

/** The GPUs and the CPU. */
export function tellDevices({ devices, cpu_threads: threads }) {
  const cpu =
    threads === null ? "not known yet" : `${threads} ${threads === 1 ? "thread" : "threads"}`;
  const none = "No GPU is used: the CPU computes every row.";
  const noGpu = make("p", { className: "caption", textContent: none });
  return [
    ...(devices.length > 0 ? devices.map(makeGpu) : [noGpu]),
    makeDevice("CPU", [["For products", cpu]]),
  ];
}

function makeGpu(gpu) {
  return makeDevice(gpu.name, [
    ["CUDA index", String(gpu.index)],
    ["Multiprocessors", showWhole(gpu.sm_count)],
    ["Memory", showBytes(gpu.memory_bytes)],
    ["Clock", `${showWhole(gpu.clock_mhz)} MHz`],
    ["Compute capability", gpu.compute_capability.join(".")],
    ["Driver", gpu.driver_version],
  ]);
}

/** The cluster's nodes; null without a cluster. */
export function tellNodes(nodes) {
  if (nodes.length === 0) return null;
  return nodes.map((node) =>
    makeDevice(node.host, [
      ["GPUs", node.devices.map(({ name }) => name).join(", ") || "none"],
      ["CPU threads", String(node.cpu_threads)],
      ["Memory", showBytes(node.memory_bytes)],
      ["Time of an empty call", showSeconds(node.network.call_seconds)],
      ["Copies to it", `${showBytes(node.network.in_bytes_per_second)}/s`],
      ["Copies from it", `${showBytes(node.network.out_bytes_per_second)}/s`],
      ["Measured vs predicted", showSpeed(node.factor)],
      ["Figures", tellSource(node.profile)],
    ]),
  );
}

function makeDevice(name, facts) {
  return make("div", { className: "device" }, make("h3", { textContent: name }), listFacts(facts));
}

/** Where a profile comes from, and how old it is. */
export function tellSource({ source, measured_at: measured }) {
  const told = source.replaceAll("`", "");
  return measured === null ? told : `${told}, ${showAge(measured)}`;
}
