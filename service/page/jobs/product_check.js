/** Checks a product in the browser by Freivalds' method: C·x must be A·(B·x), for a random x.
 *
 * This takes MK + KN + MN multiplications in place of MNK, and a wrong element of C shows in it.
 * Integers wrap around as they do in NumPy, so the two must be equal. With floating-point numbers
 * they may differ by as much as rounding explains.
 */

import { findSums } from "./product_sums.js";

/** Rounding error of sums, as a share of |A|·|B|·|x|; types of 16 bits are summed in float32. */
const SUM_ROUNDING = {
  float16: 2 ** -23,
  bfloat16: 2 ** -23,
  float32: 2 ** -23,
  float64: 2 ** -52,
  complex64: 2 ** -22,
  complex128: 2 ** -51,
};

/** Rounding error of an element of 16 bits when it is stored.
 *
 * `share` of the element, and of `least` for elements that are smaller.
 */
const STORE_ROUNDING = {
  float16: { share: 2 ** -11, least: 2 ** -14 },
  bfloat16: { share: 2 ** -9, least: 2 ** -126 },
};

/** Allowed sum of the errors of a row's stored elements, in roots of the sum of their squares.
 *
 * The signs of x are random, so the errors of at most one row of 10^13 add up to more.
 */
const ALLOWED_ROOTS = 8;

/** The page computes this long at a time, and then handles other events. */
const BUSY_MS = 25;

/** Compare a product with its operands, each {rows, columns, elements, strides}.
 *
 * Gives {right, expectedNorm, norm, isWhole, worst}. The norms are the lengths of A·(B·x) and C·x.
 * `worst` is the largest difference between two of their elements, as a share of what rounding may
 * explain; Infinity if only one of the two is finite. `isWhole`: whether elements are integers.
 * `right` is null if C has infinities: they may be right, but cannot be compared.
 */
export async function checkProduct(a, b, c, dtype) {
  const { makeNumbers, sum, sumSizes, measure, findDistance } = findSums(dtype);
  const x = makeNumbers(c.columns);
  const expected = await multiply(a, await multiply(b, x, sum), sum);
  const found = await multiply(c, x, sum);
  const norms = { expectedNorm: measureAll(expected, measure), norm: measureAll(found, measure) };
  if (!(dtype in SUM_ROUNDING)) {
    const right = expected.every((value, row) => value === found[row]);
    return { ...norms, isWhole: true, right, worst: right ? 0 : Infinity };
  }
  const sizes = await multiply(c, x.map(measure), sumSizes);
  const allowed = await findAllowed({ a, b, c }, { x, sizes }, dtype);
  const shares = expected.map((one, row) =>
    compareElements({
      expected: measure(one),
      found: measure(found[row]),
      distance: findDistance(one, found[row]),
      allowed: allowed[row],
      size: sizes[row],
    }),
  );
  const worst = shares.reduce((most, share) => Math.max(most, share), 0); // null counts as 0
  const right = worst <= 1 && shares.includes(null) ? null : worst <= 1;
  return { ...norms, isWhole: false, right, worst };
}

/** The difference of an element of A·(B·x) and one of C·x, as a share of what rounding explains.
 *
 * `expected` and `found` are their magnitudes, `distance` is that of their difference, `size` the
 * element of |C|·|x|. Infinity if only one of the two is finite; but null if that may be right, as
 * C has infinities, which its type has in place of larger numbers.
 */
function compareElements({ expected, found, distance, allowed, size }) {
  if (Number.isNaN(expected) && Number.isNaN(found)) return 0;
  if (Number.isFinite(expected) && Number.isFinite(found))
    return distance > 0 ? distance / allowed : 0;
  if (Number.isFinite(found)) return Infinity;
  return size === Infinity || !Number.isFinite(expected) ? null : Infinity;
}

/** The difference that rounding explains in each element of C·x; `sizes` are those of |C|·|x|. */
async function findAllowed({ a, b, c }, { x, sizes }, dtype) {
  const { measure, sumSizes } = findSums(dtype);
  const magnitudes = x.map(measure);
  const scale = await multiply(a, await multiply(b, magnitudes, sumSizes), sumSizes);
  const ofSums = SUM_ROUNDING[dtype] * (4 + Math.sqrt(a.columns));
  const allowed = scale.map((size, row) => ofSums * Math.max(size, sizes[row]));
  if (!(dtype in STORE_ROUNDING)) return allowed;
  const { share, least } = STORE_ROUNDING[dtype];
  const roots = await multiply(c, magnitudes, (elements, begin, stride, vector, count) => {
    let squares = 0;
    for (let at = 0; at < count; at += 1)
      squares += (Math.max(Math.abs(elements[begin + at * stride]), least) * vector[at]) ** 2;
    return Math.sqrt(squares);
  });
  return allowed.map((size, row) => size + ALLOWED_ROOTS * share * roots[row]);
}

/** A matrix times a vector, each row by `sum`. */
async function multiply({ rows, columns, elements, strides }, vector, sum) {
  const [rowStride, columnStride] = strides;
  const result = [];
  let pause = performance.now() + BUSY_MS;
  for (let row = 0; row < rows; row += 1) {
    result.push(sum(elements, row * rowStride, columnStride, vector, columns));
    if (performance.now() > pause) {
      await new Promise((done) => setTimeout(done));
      pause = performance.now() + BUSY_MS;
    }
  }
  return result;
}

/** The length of a vector. */
function measureAll(vector, measure) {
  return vector.reduce((sum, one) => Math.hypot(sum, measure(one)), 0);
}
