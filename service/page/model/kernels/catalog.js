/** The catalog of kernels (kernels/catalog.py); its entries are in tables.js. */

import { TABLES } from "../tables.js";
import { Refusal } from "../refusal.js";

/** Entries of the catalog, simplest kernels first; all, or those of one element type. */
export function listKernels(dtype) {
  return TABLES.kernels.filter((spec) => dtype === undefined || spec.dtype === dtype);
}

/** Entries that a GPU of this compute capability runs. */
export function listRunnable(capability) {
  return TABLES.kernels.filter((spec) => runsOn(spec, capability));
}

function runsOn(spec, capability) {
  const newest = spec.max_compute_capability ?? capability;
  const least = spec.min_compute_capability;
  return (
    compareCapabilities(least, capability) <= 0 && compareCapabilities(capability, newest) <= 0
  );
}

function compareCapabilities(one, other) {
  return one[0] - other[0] || one[1] - other[1];
}

/** The entry of that name, element type and tile ("32", "64x128" or "64x128x16"). */
export function findKernel(name, dtype, tile) {
  const typed = listKernels(dtype).filter((spec) => spec.name === name);
  if (typed.length === 0) throw new Refusal("dtype", dtype, `a type that ${name} multiplies`);
  const found = typed.find((spec) => spec.tile_spellings.includes(tile));
  if (found === undefined) throw new Refusal("tile", tile, `a tile of ${name} in ${dtype}`);
  return found;
}

/** Multiprocessors that a kernel uses if it is limited to `sms` of `count`; 0 if too few. */
export function countHeldSms(spec, sms, count) {
  return sms === count ? sms : sms - (sms % spec.sms_quantum);
}

/** Bytes of an element's bfloat16 splits; 0 for kernels without splits, and for a short K. */
export function findSplitItemBytes(spec, k) {
  return k >= spec.least_k ? spec.split_item_bytes : 0;
}
