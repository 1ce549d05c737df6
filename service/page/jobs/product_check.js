/** Checks a product in the browser: C·x must be A·(B·x), for an x of random numbers.
 *
 * That takes MK + KN + MN multiplications in place of MNK, and a wrong element of C shows in it
 * (Freivalds). Whole numbers wrap around as they do in NumPy, so theirs must be equal; of others
 * the difference may be as large as rounding makes it.
 */

import { findSums } from "./product_sums.js";

/** Rounding of sums, as a share of |A|·|B|·|x|; halves are summed in float32. */
const SUMMED = {
  float16: 2 ** -23,
  bfloat16: 2 ** -23,
  float32: 2 ** -23,
  float64: 2 ** -52,
  complex64: 2 ** -22,
  complex128: 2 ** -51,
};

/** Rounding of a half when it is stored, as a share of it, and the least number that this holds for. */
const STORED = {
  float16: { share: 2 ** -11, least: 2 ** -14 },
  bfloat16: { share: 2 ** -9, least: 2 ** -126 },
};

/** Signs of x are random, so that stored elements' roundings add up to their root of squares: beyond
 * eight of these is one row of 10^13. */
const DEVIATIONS = 8;

/** So long the page is busy before it looks whether there is something else to do. */
const BUSY_MS = 25;

/** Compare a product with its operands, each {rows, columns, elements, steps}.
 *
 * Gives {right, expectedNorm, norm, isWhole, worst}: the lengths of A·(B·x) and C·x, and the largest
 * difference of two of their elements, over what rounding may make of it. `right` is null where C has
 * elements that are not finite: they may be right, and cannot be compared.
 */
export async function checkProduct(a, b, c, dtype) {
  const { makeNumbers, sum, measure, findDistance } = findSums(dtype);
  const x = makeNumbers(c.columns);
  const expected = await multiply(a, await multiply(b, x, sum), sum);
  const found = await multiply(c, x, sum);
  const norms = { expectedNorm: measureAll(expected, measure), norm: measureAll(found, measure) };
  if (!(dtype in SUMMED)) {
    const right = expected.every((value, row) => value === found[row]);
    return { ...norms, isWhole: true, right, worst: right ? 0 : Infinity };
  }
  if (!Number.isFinite(norms.norm)) return { ...norms, isWhole: false, right: null };
  const allowed = await findAllowed({ a, b, c }, x, dtype);
  let worst = 0;
  for (let row = 0; row < c.rows; row += 1) {
    const distance = findDistance(expected[row], found[row]);
    if (distance > 0) worst = Math.max(worst, distance / allowed[row]);
  }
  return { ...norms, isWhole: false, right: worst <= 1, worst };
}

/** What rounding may make of each element of C·x. */
async function findAllowed({ a, b, c }, x, dtype) {
  const { measure, sumSizes } = findSums(dtype);
  const sizes = x.map(measure);
  const scale = await multiply(a, await multiply(b, sizes, sumSizes), sumSizes);
  const products = await multiply(c, sizes, sumSizes);
  const summed = SUMMED[dtype] * (4 + Math.sqrt(a.columns));
  const allowed = scale.map((size, row) => summed * Math.max(size, products[row]));
  if (!(dtype in STORED)) return allowed;
  const { share, least } = STORED[dtype];
  const roots = await multiply(c, sizes, (elements, begin, step, vector, count) => {
    let squares = 0;
    for (let at = 0; at < count; at += 1)
      squares += (Math.max(Math.abs(elements[begin + at * step]), least) * vector[at]) ** 2;
    return Math.sqrt(squares);
  });
  return allowed.map((size, row) => size + DEVIATIONS * share * roots[row]);
}

/** A matrix times a vector, each row by `sum`. */
async function multiply({ rows, columns, elements, steps }, vector, sum) {
  const [rowStep, columnStep] = steps;
  const result = [];
  let pause = performance.now() + BUSY_MS;
  for (let row = 0; row < rows; row += 1) {
    result.push(sum(elements, row * rowStep, columnStep, vector, columns));
    if (performance.now() > pause) {
      await new Promise((done) => setTimeout(done));
      pause = performance.now() + BUSY_MS;
    }
  }
  return result;
}

function measureAll(vector, measure) {
  return vector.reduce((sum, one) => Math.hypot(sum, measure(one)), 0);
}
