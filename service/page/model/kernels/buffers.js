/** Device buffers of a product, within a limit of memory (kernels/schedule/buffers.py). */

import { divideDown, divideUp } from "../arithmetic.js";
import { Refusal } from "../refusal.js";
import { TABLES } from "../tables.js";

const { SLOT_ALIGNMENT_BYTES, LINE_BYTES, VECTOR_BYTES, MIN_DEPTH, VERDICT_BYTES } =
  TABLES.constants;

/** Choose buffers of at most `limitBytes` together.
 *
 * The first layout that fits: all of B stays, groups of B's columns stay in turn, or K is cut too.
 */
export function fitBuffers(problem, panelRows, firstRows, limitBytes) {
  const buffers =
    fitWhole(problem, panelRows, firstRows, limitBytes) ??
    fitColumns(problem, panelRows, limitBytes) ??
    fitDepth(problem, panelRows, limitBytes);
  if (buffers === null) throw new Refusal("gpu_memory_bytes", limitBytes, "room for two tiles");
  return buffers;
}

/** Buffers for all of B: 6 or 3 panels of A and C, else 2, down to one tile high. */
function fitWhole(problem, panelRows, firstRows, limitBytes) {
  const tall = Math.max(panelRows, firstRows);
  const choices = [
    [tall, 6],
    [tall, 3],
    [panelRows, 3],
  ];
  choices.push(...halve(panelRows, problem.tileM).map((rows) => [rows, 2]));
  for (const [rows, slots] of choices) {
    const buffers = size(problem, rows, problem.k, problem.n, slots, 1);
    if (buffers.totalBytes <= limitBytes) return buffers;
  }
  return null;
}

/** Buffers for some columns of B and all of K: fewest passes over A, then the tallest panel. */
function fitColumns(problem, panelRows, limitBytes) {
  let best = null;
  for (const rows of halve(panelRows, problem.tileM)) {
    const most = pair(problem, rows, problem.k, 0);
    const spareBytes = limitBytes - most.totalBytes;
    const columnBytes =
      2 * (problem.k + rows) * problem.itemBytes + problem.k * problem.splitItemBytes;
    let tiles = divideDown(spareBytes, columnBytes * problem.tileN);
    // Padding may need a little more than the estimate.
    while (tiles > 0) {
      const passes = divideUp(problem.tilesPerTileRow, tiles);
      const columns = divideUp(problem.tilesPerTileRow, passes) * problem.tileN;
      const buffers = pair(problem, rows, problem.k, Math.min(columns, problem.n));
      if (buffers.totalBytes <= limitBytes) {
        if (best === null || passes < best.passes) best = { passes, buffers };
        break;
      }
      tiles -= 1;
    }
  }
  return best && best.buffers;
}

/** Buffers for a part of K: fewest bytes to copy in, if possible without very short parts. */
function fitDepth(problem, panelRows, limitBytes) {
  let best = null;
  for (const rows of halve(panelRows, problem.tileM)) {
    for (const columns of halve(problem.n, problem.tileN)) {
      const depth = findDepth(problem, rows, columns, limitBytes);
      if (depth === 0) continue;
      const short = depth < Math.min(problem.k, MIN_DEPTH);
      const copied =
        problem.m * divideUp(problem.n, columns) + problem.n * divideUp(problem.m, rows);
      if (best === null || (short === best.short ? copied < best.copied : best.short)) {
        best = { short, copied, buffers: pair(problem, rows, depth, columns) };
      }
    }
  }
  return best && best.buffers;
}

/** Longest part of K, in whole tiles, that fits with these rows and columns; 0 if none does. */
function findDepth(problem, rows, columns, limitBytes) {
  let fits = 0;
  let exceeds = divideUp(problem.k, problem.tileK) + 1;
  while (exceeds - fits > 1) {
    const middle = divideDown(fits + exceeds, 2);
    const depth = Math.min(problem.k, middle * problem.tileK);
    if (pair(problem, rows, depth, columns).totalBytes <= limitBytes) fits = middle;
    else exceeds = middle;
  }
  return Math.min(problem.k, fits * problem.tileK);
}

/** Double buffers of each operand. */
function pair(problem, rows, depth, columns) {
  return size(problem, rows, depth, columns, 2, 2);
}

/** Buffers of this size and number, with memory for splits if the kernel makes them. */
function size(problem, rows, depth, columns, slots, bSlots) {
  const { itemBytes } = problem;
  const splitBytes = problem.splitItemBytes
    ? align(countSplitBytes(problem, rows, columns, depth))
    : 0;
  const totalBytes =
    slots * countBytes(rows, depth, itemBytes) +
    bSlots * countBytes(depth, columns, itemBytes) +
    slots * countBytes(rows, columns, itemBytes) +
    splitBytes;
  return { rows, depth, columns, aSlots: slots, bSlots, cSlots: slots, totalBytes };
}

function countSplitBytes(problem, rows, columns, depth) {
  const lines =
    divideUp(rows, problem.tileM) * problem.tileM +
    divideUp(columns, problem.tileN) * problem.tileN;
  const steps = divideUp(depth, problem.tileK) * problem.tileK;
  return VERDICT_BYTES + lines * steps * problem.splitItemBytes;
}

function countBytes(rows, columns, itemBytes) {
  return align(rows * pitchItems(columns, itemBytes) * itemBytes);
}

/** Leading dimension of a buffer on the device, in elements.
 *
 * Rows begin at multiples of 16 bytes, long rows at cache lines. Very short rows are not padded.
 */
function pitchItems(columns, itemBytes) {
  const rowBytes = columns * itemBytes;
  if (rowBytes < 4 * VECTOR_BYTES) return columns;
  const alignment = rowBytes < VECTOR_BYTES * LINE_BYTES ? VECTOR_BYTES : LINE_BYTES;
  return divideDown(divideUp(rowBytes, alignment) * alignment, itemBytes);
}

function align(bytes) {
  return divideUp(bytes, SLOT_ALIGNMENT_BYTES) * SLOT_ALIGNMENT_BYTES;
}

/** `length`, then its halves in whole tiles, down to one tile. */
function halve(length, tile) {
  const choices = [length];
  while (choices.at(-1) > tile) {
    choices.push(Math.max(1, divideDown(divideDown(choices.at(-1), 2), tile)) * tile);
  }
  return choices;
}
