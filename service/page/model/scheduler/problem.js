/** The product to be computed (scheduler/problem.py), and whether one thread takes it (cpu/blocks.py). */

import { divideDown } from "../arithmetic.js";
import { TABLES } from "../tables.js";

const { ITEM_BYTES, MIN_BLOCK_FLOPS, MIN_BLOCK_ELEMENTS, MOST_TERMS } = TABLES.constants;

/** C[M,N] = A[M,K]·B[K,N] of one element type, in one kind of host memory. */
export class GemmProblem {
  constructor({ m, n, k, dtype = "float32", memory = "pageable" }) {
    Object.assign(this, { m, n, k, dtype, memory });
    this.itemBytes = ITEM_BYTES[dtype];
    this.aRowBytes = k * this.itemBytes;
    this.bBytes = k * n * this.itemBytes;
    this.cRowBytes = n * this.itemBytes;
    Object.freeze(this);
  }
}

/** Whether NumPy in the calling thread computes a product faster than the thread pool. */
export function isSmall({ m, n, k, dtype }) {
  if (dtype !== "float32" && dtype !== "float64") return m * n * k <= MOST_TERMS;
  const elements = Math.max((m + n) * k, m * n);
  const useful = Math.max(
    1,
    divideDown(2 * m * n * k, MIN_BLOCK_FLOPS),
    divideDown(elements, MIN_BLOCK_ELEMENTS),
  );
  return useful <= 1;
}
