/** The cost curves of one product on one machine (scheduler/model/curves.py). */

import { divideDown } from "../arithmetic.js";
import { countHeldSms, findSplitItemBytes } from "../kernels/catalog.js";
import { PanelProblem } from "../kernels/panels.js";
import { Rates } from "../kernels/schedule.js";
import { TABLES } from "../tables.js";
import { classifyCpuRun, classifyGpuRun } from "./corrections.js";
import { CpuCurve } from "./cost.js";
import { GpuCurve } from "./gpu_curve.js";
import { countShares, isSmall } from "./problem.js";

const { MEMORY_SHARE, NARROW, SMALL_PRODUCT_BYTES } = TABLES.constants;
const { STREAMED_BYTES, STREAMED_DTYPES, STREAMED_ROW_BYTES, STREAMED_TIMES } = TABLES.constants;

/** The CPU's curve.
 *
 * `share`: how the CPU is shared in a split, null for the CPU alone. `copying`: share of the GPU
 * part's time in which copies are under way, 0…1.
 */
export function buildCpuCurve(problem, profile, share = null, copying = 1) {
  const rate = profile.findCpuRate(problem.dtype);
  const { threads } = profile.cpu;
  if (share === null) {
    return correct(buildAloneCurve(problem, rate, profile.cpu), problem, profile, false);
  }
  const fewer = threads / share.threads;
  const slower = 1 + (share.stretch - 1) * copying;
  const memorySlower = 1 + (share.memory_stretch - 1) * copying;
  const callSeconds = rate.call_seconds + share.late_seconds;
  const readSeconds = problem.n * problem.k * rate.vector_seconds;
  const fields = {
    rowSeconds: findRowSeconds(problem, rate, profile.cpu, {
      fewer,
      slower,
      memorySlower,
      writeSlower: 1 + (share.write_stretch - 1) * copying,
    }),
    startupRows: rate.startup_rows,
    callSeconds,
    rowQuantum: rate.row_quantum,
    vectorSeconds: readSeconds ? callSeconds + readSeconds : 0,
  };
  return correct(fields, problem, profile, true);
}

/** Share of the CPU's time for a row in which memory is written, 0…1. */
export function findWritingShare(problem, profile) {
  const rate = profile.findCpuRate(problem.dtype);
  const { cpu } = profile;
  const rowSeconds = findRowSeconds(problem, rate, cpu, { fewer: 1 });
  return rowSeconds ? findWrittenSeconds(problem, rate, cpu) / rowSeconds : 0;
}

/** The curve with its factor from earlier runs. */
function correct(fields, problem, profile, shared) {
  const seconds = new CpuCurve(fields).seconds(problem.m);
  const correction = profile.corrections.find(classifyCpuRun(problem, seconds, shared));
  return new CpuCurve({ ...fields, correction });
}

/** The curve without a GPU part, as its fields.
 *
 * Several threads take at least the time of moving A, B and C through memory. One thread reads B
 * in addition to its arithmetic, because nothing hides that.
 */
function buildAloneCurve(problem, rate, cpu) {
  const { threads } = cpu;
  const { n, k } = problem;
  if (isSmall(problem)) {
    const flopSeconds = 1e-9 / findGflops(rate, 1, threads);
    const rowSeconds = 2 * k * (n + rate.cached_copy_columns) * flopSeconds;
    const startupRows = (k * n * rate.read_seconds) / rowSeconds;
    return { rowSeconds, startupRows, callSeconds: rate.alone_seconds };
  }
  const taking = countShares(problem, threads);
  const fewer = rate.gflops / findGflops(rate, taking, threads);
  const readSeconds = Math.max(rate.vector_seconds, rate.read_seconds / taking);
  // Waking fewer threads takes less time.
  const wakingSeconds = (Math.max(0, rate.call_seconds - rate.alone_seconds) * taking) / threads;
  const callSeconds = Math.min(rate.call_seconds, rate.alone_seconds + wakingSeconds);
  const rowSeconds = findRowSeconds(problem, rate, cpu, { fewer });
  return {
    rowSeconds,
    startupRows: Math.max(rate.startup_rows, (k * n * readSeconds) / rowSeconds),
    callSeconds,
    rowQuantum: rate.row_quantum,
    vectorSeconds: readSeconds ? callSeconds + k * n * readSeconds : 0,
  };
}

/** Rate of some threads of a pool: one is faster alone, as cores share their units. */
function findGflops(rate, taking, threads) {
  return Math.min(rate.gflops, taking * (rate.alone_gflops || rate.gflops / threads));
}

/** Seconds of a row: its arithmetic and elements; in a narrow product its multiply-adds.
 *
 * At least the time to read A and write C, as far as the caches do not hold them; a C that is
 * written past them takes the time of all of it. `fewer`: the rate of all threads over that of
 * those that compute. `slower`, `memorySlower` and `writeSlower`: factors of contention on the time
 * of arithmetic, of reading A and writing C, and of writing a C past the caches.
 */
function findRowSeconds(problem, rate, cpu, factors) {
  const { fewer, slower = 1, memorySlower = 1, writeSlower = 1 } = factors;
  const { m, n, k, itemBytes } = problem;
  const flopSeconds = 1e-9 / rate.gflops;
  const [aShare, cShare] = [k, n].map((columns) => findUncachedShare(cpu, m * columns * itemBytes));
  const streamed = isStreamed(problem);
  const movingSeconds = Math.max(
    memorySlower * aShare * k * rate.vector_seconds,
    (streamed ? writeSlower : memorySlower) * findWrittenSeconds(problem, rate, cpu),
  );
  if (rate.narrow_seconds && Math.max(n, k) <= NARROW)
    return Math.max(n * k * rate.narrow_seconds * fewer * memorySlower, movingSeconds);
  const copyColumns = aShare * rate.copy_columns + (1 - aShare) * rate.cached_copy_columns;
  const columnSeconds = n * slower + copyColumns * memorySlower;
  const uncachedSeconds = streamed
    ? Math.min(rate.element_seconds, rate.write_seconds)
    : rate.element_seconds;
  const elementSeconds =
    cShare * memorySlower * uncachedSeconds +
    (1 - cShare) * slower * rate.cached_element_seconds;
  const rowSeconds = fewer * (2 * k * columnSeconds * flopSeconds + n * elementSeconds);
  return Math.max(rowSeconds, movingSeconds);
}

/** Seconds to write what of a row of C goes to memory: all of it, or what caches do not hold. */
function findWrittenSeconds(problem, rate, cpu) {
  const { m, n, itemBytes } = problem;
  const share = isStreamed(problem) ? 1 : findUncachedShare(cpu, m * n * itemBytes);
  return share * n * rate.write_seconds;
}

/** Share of a matrix that the caches do not hold. */
function findUncachedShare(cpu, matrixBytes) {
  return Math.max(0, 1 - cpu.cache_bytes / matrixBytes);
}

/** The GPU's curve with one kernel, without a CPU part; `sms`: limit of multiprocessors, if any. */
export function buildGpuCurve(problem, profile, spec, model, sms) {
  const count = profile.gpu.sm_count;
  const held = sms === null ? count : countHeldSms(spec, sms, count);
  const panels = new PanelProblem({
    m: problem.m,
    n: problem.n,
    k: Math.max(1, problem.k),
    itemBytes: problem.itemBytes,
    tileM: spec.tile_m,
    tileN: spec.tile_n,
    tileK: spec.tile_k,
    slots: Math.max(1, divideDown(model.slots * held, count)),
    splitItemBytes: findSplitItemBytes(spec, problem.k),
    splitsTail: spec.splits_tail,
    splitsShort: spec.splits_short,
    staged: problem.memory === "pageable" && !isCopiedFirst(problem),
  });
  const rates = buildRates(problem, profile, model);
  const correction = profile.corrections.find(classifyGpuRun(problem, panels, rates, spec, false));
  const memoryBytes = Math.trunc(MEMORY_SHARE * profile.gpu.memory_bytes);
  return new GpuCurve({ problem: panels, rates, memoryBytes, correction });
}

/** The rates of a machine's link and one kernel, without a CPU part. */
function buildRates(problem, profile, model) {
  const link = findLink(problem, profile);
  return new Rates({
    inBytesPerSecond: link.in_gbytes_per_second * 1e9,
    outBytesPerSecond: link.out_gbytes_per_second * 1e9,
    duplex: 2 * link.together,
    copySeconds: link.copy_seconds,
    rowSeconds: link.row_seconds,
    enqueueSeconds: link.step_seconds,
    callSeconds: link.call_seconds + findLostSeconds(problem, link),
    launchSeconds: model.launch_seconds,
    waveSeconds: model.wave_seconds,
    depthSeconds: model.wave_k_seconds,
    memoryBytesPerSecond: profile.gpu.memory_gbytes_per_second * 1e9,
  });
}

/** Whether the product is copied whole into page-locked memory first. */
function isCopiedFirst({ m, aRowBytes, bBytes, cRowBytes, memory }) {
  const operandBytes = m * (aRowBytes + cRowBytes) + bBytes;
  return memory === "pageable" && operandBytes <= SMALL_PRODUCT_BYTES;
}

/** Whether the CPU writes C past the caches (cpu/native/streamed.c), if it has all rows. */
function isStreamed({ m, n, k, dtype, itemBytes }) {
  const isShort = k * itemBytes <= STREAMED_ROW_BYTES && STREAMED_TIMES * k <= Math.min(m, n);
  return STREAMED_DTYPES.includes(dtype) && isShort && m * n * itemBytes > STREAMED_BYTES;
}

/** The link of a product; if it is copied first, the copies in host memory are a part of it. */
function findLink(problem, profile) {
  const link = profile.findLink(problem.memory);
  if (!isCopiedFirst(problem)) return link;
  const direct = profile.findLink("pinned");
  const copying = 1 / link.copied_gbytes_per_second;
  return {
    ...direct,
    call_seconds: link.call_seconds,
    in_gbytes_per_second: 1 / (1 / direct.in_gbytes_per_second + copying),
    out_gbytes_per_second: 1 / (1 / direct.out_gbytes_per_second + copying),
  };
}

/** Seconds that copies lose until they run at their rates. */
function findLostSeconds({ m, bBytes, aRowBytes, cRowBytes }, link) {
  const inSeconds = (1e-9 * (bBytes + m * aRowBytes)) / link.in_gbytes_per_second;
  const outSeconds = (1e-9 * (m * cRowBytes)) / link.out_gbytes_per_second;
  const movingSeconds = Math.max(inSeconds, outSeconds);
  return Math.sqrt(link.fill_seconds * Math.min(link.fill_seconds, movingSeconds));
}
