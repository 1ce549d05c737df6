/** The product to be computed (scheduler/problem.py), and its CPU threads (cpu/blocks.py). */

import { divideDown } from "../arithmetic.js";
import { Refusal } from "../refusal.js";
import { TABLES } from "../tables.js";

const { ITEM_BYTES, ADDRESSABLE_BYTES, MIN_BLOCK_TERMS, ELEMENT_TERMS, LEAST_SHARED, MOST_TERMS } =
  TABLES.constants;

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

  vary(changes) {
    return new GemmProblem({ ...this, ...changes });
  }

  /** Refuse a product that no memory can hold; both figures are named. */
  checkFits() {
    const { m, n, k, aRowBytes, cRowBytes, bBytes } = this;
    const bytes = m * (aRowBytes + cRowBytes) + bBytes;
    if (bytes <= ADDRESSABLE_BYTES) return;
    const [needed, most] = [bytes, ADDRESSABLE_BYTES].map(showGib);
    const limit = `smaller: A, B and C take ${needed}, and a process can address ${most}`;
    throw new Refusal("m, n, k", [m, n, k], limit);
  }
}

/** Whether NumPy in the calling thread computes a product faster than the thread pool. */
export function isSmall({ m, n, k, dtype }) {
  if (dtype !== "float32" && dtype !== "float64") return m * n * k <= MOST_TERMS;
  return countUseful(m, n, k) < LEAST_SHARED;
}

/** Threads that compute a product, of `threads`. */
export function countShares({ m, n, k }, threads) {
  const useful = countUseful(m, n, k);
  return useful >= LEAST_SHARED ? Math.min(threads, useful) : 1;
}

/** Most blocks that are each worth a thread: by terms, and by elements to move. */
function countUseful(m, n, k) {
  const elements = m * k + k * n + m * n;
  return divideDown(m * n * k + ELEMENT_TERMS * elements, MIN_BLOCK_TERMS);
}

function showGib(bytes) {
  const digits = { minimumFractionDigits: 1, maximumFractionDigits: 1 };
  return `${(bytes / 2 ** 30).toLocaleString("en-US", digits)} GiB`;
}
