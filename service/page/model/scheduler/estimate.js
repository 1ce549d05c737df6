/** The assumed machine: figures for what was not measured, each by a stated rule.
 *
 * As scheduler/profile/estimate.py, where each rule and its numbers are explained.
 */

import { divideDown } from "../arithmetic.js";
import { listRunnable } from "../kernels/catalog.js";
import { TABLES } from "../tables.js";
import { MachineProfile } from "./machine.js";

const {
  PEAK_SHARE,
  TILE_SHARE,
  LAUNCH_SECONDS,
  LINK_SHARE,
  CALL_SECONDS,
  STEP_SECONDS,
  COPY_SECONDS,
  ROW_SECONDS,
  CPU_THREAD_GFLOPS,
  PINNED_STRETCH,
  START_SECONDS,
  LATE_SECONDS,
  MEMORY_STRETCH,
  WRITE_STRETCH,
  WRITE_LINK_STRETCH,
  COPIER_GBYTES_PER_SECOND,
  FILL_SECONDS,
  COPIED_GBYTES_PER_SECOND,
  STAGED_STRETCH,
  CPU_WRITE_GBYTES_PER_SECOND,
  CPU_READ_GBYTES_PER_SECOND,
  CACHE_GBYTES_PER_SECOND,
  ALONE_SECONDS,
  ALONE_SHARE,
  COPY_COLUMNS,
  TOGETHER,
  THREADS_AN_SM,
  BLOCKS_AN_SM,
  STAGING_THREADS,
  ITEM_BYTES,
  MEMORIES,
  LANES_AN_SM,
} = TABLES.constants;
const { cpu_rate, cpu_share, link, cpu_comparison, derived } = TABLES.estimates;

/** The profile of a GPU from its data sheet, with a number of CPU threads. */
export function buildPresetProfile(gpu, cpuThreads) {
  return new MachineProfile({
    device: gpu.name,
    source: gpu.source,
    cpu: estimateCpu(cpuThreads, gpu),
    gpu,
    links: estimateLinks(gpu),
    kernels: listRunnable(gpu.compute_capability).map((spec) => estimateKernel(gpu, spec)),
  });
}

/** A machine without a GPU. */
export function buildCpuProfile(cpuThreads) {
  return new MachineProfile({
    device: "cpu",
    source: "estimate, no GPU",
    cpu: estimateCpu(cpuThreads, null),
  });
}

/** The data sheet of a GPU from a few properties, by the rule for a GPU without a preset. */
export function describeGpu(typed) {
  const { smCount, clockMhz, memoryClockMhz, capability, memoryBytes, linkRate } = typed;
  const lanes = LANES_AN_SM[capability.join(" ")] ?? derived.lanes;
  const float32Gflops = (smCount * lanes * 2 * clockMhz) / 1e3;
  const float64Gflops = float32Gflops / derived.float32_over_float64;
  return {
    name: "typed in",
    sm_count: smCount,
    compute_capability: capability,
    clock_mhz: clockMhz,
    memory_bytes: memoryBytes,
    memory_gbytes_per_second: (memoryClockMhz * 2 * 256) / 8 / 1e3,
    link_gbytes_per_second: linkRate ?? derived.link_gbytes_per_second,
    float32_gflops: float32Gflops,
    float64_gflops: float64Gflops,
    float64_tensor_gflops: float64Gflops,
    float16_tensor_gflops: 2 * float32Gflops,
    source: "derived from what was typed in",
  };
}

function estimateKernel(gpu, spec) {
  const blocks = Math.min(BLOCKS_AN_SM, Math.max(1, divideDown(THREADS_AN_SM, spec.threads)));
  const slots = gpu.sm_count * (spec.fills_sm ? 1 : blocks);
  const peakShare = PEAK_SHARE[`${spec.name} ${spec.dtype}`];
  const share = TILE_SHARE[`${spec.name} ${spec.dtype} ${spec.tile}`] ?? peakShare;
  const flopsASecond = share * findPeakGflops(gpu, spec) * 1e9;
  return {
    kernel: spec.name,
    dtype: spec.dtype,
    tile: spec.tile,
    slots,
    launch_seconds: LAUNCH_SECONDS,
    wave_seconds: 0,
    wave_k_seconds: (2 * spec.tile_m * spec.tile_n * slots) / flopsASecond,
    source: `assumed: ${Math.round(share * 100)}% of the peak of ${gpu.name}`,
    assumed: true,
  };
}

function findPeakGflops(gpu, spec) {
  if (spec.dtype === "float16" || spec.dtype === "bfloat16") return gpu.float16_tensor_gflops;
  if (spec.dtype === "float64" || spec.dtype === "complex128") {
    const onTensorCores = spec.name === "tensor" || spec.name === "cublas";
    return onTensorCores ? gpu.float64_tensor_gflops : gpu.float64_gflops;
  }
  return gpu.float32_gflops;
}

function estimateLinks(gpu) {
  const standard = gpu.link_gbytes_per_second;
  return MEMORIES.map((memory) => ({
    ...link,
    memory,
    in_gbytes_per_second: LINK_SHARE[memory] * standard,
    out_gbytes_per_second: LINK_SHARE[memory] * standard,
    call_seconds: CALL_SECONDS[memory],
    source: `assumed: ${Math.round(LINK_SHARE[memory] * 100)}% of ${standard} GB/s`,
    step_seconds: STEP_SECONDS[memory],
    copy_seconds: COPY_SECONDS[memory],
    row_seconds: ROW_SECONDS[memory],
    together: TOGETHER[memory],
    fill_seconds: FILL_SECONDS[memory],
    copied_gbytes_per_second: COPIED_GBYTES_PER_SECOND,
  }));
}

function estimateCpu(threads, gpu) {
  const rates = Object.entries(ITEM_BYTES).map(([dtype, itemBytes]) => ({
    ...cpu_rate,
    dtype,
    read_seconds: itemBytes / (CACHE_GBYTES_PER_SECOND * 1e9),
    gflops: threads * CPU_THREAD_GFLOPS * cpu_comparison[dtype],
    source: `assumed: ${CPU_THREAD_GFLOPS} GFLOP/s of float32 a thread, ${threads} threads`,
    element_seconds: itemBytes / (threads * CPU_WRITE_GBYTES_PER_SECOND * 1e9),
    write_seconds: itemBytes / (threads * CPU_WRITE_GBYTES_PER_SECOND * 1e9),
    vector_seconds: itemBytes / (threads * CPU_READ_GBYTES_PER_SECOND * 1e9),
    copy_columns: COPY_COLUMNS,
    cached_copy_columns: COPY_COLUMNS,
    alone_seconds: ALONE_SECONDS,
    alone_gflops: ALONE_SHARE * CPU_THREAD_GFLOPS * cpu_comparison[dtype],
  }));
  const linkRate = gpu ? LINK_SHARE.pageable * gpu.link_gbytes_per_second : 0;
  return { threads, rates, beside_gpu: shareCpu(threads, linkRate), cache_bytes: 0 };
}

/** How the CPU is shared in a split, for each kind of memory. */
export function shareCpu(threads, linkRate) {
  const left = Math.max(1, threads - Math.max(1, divideDown(threads, 8)));
  const copiers = Math.min(STAGING_THREADS, threads);
  const slowed = linkRate / (copiers * COPIER_GBYTES_PER_SECOND);
  const share = (memory, computing, copying, linkStretch) => ({
    ...cpu_share,
    memory,
    threads: computing,
    copiers: copying,
    link_stretch: linkStretch,
    start_seconds: START_SECONDS,
    memory_stretch: MEMORY_STRETCH[memory],
    write_stretch: WRITE_STRETCH[memory],
    write_link_stretch: WRITE_LINK_STRETCH[memory],
    late_seconds: LATE_SECONDS[memory],
  });
  return [
    share("pageable", left, copiers, Math.max(STAGED_STRETCH, slowed)),
    share("pinned", Math.max(1, threads - 1), 1, PINNED_STRETCH),
  ];
}
