/** Checks a product in the browser: C·x must be A·(B·x), for an x of random numbers.
 *
 * That takes MK + KN + MN multiplications in place of MNK, and a wrong element of C shows in it
 * (Freivalds). Whole numbers wrap around as they do in NumPy, so theirs must be equal; of others
 * the difference may be as large as rounding makes it.
 */

/** Of float16 the sums are float32, so that each element is rounded once. */
const EPSILON = { float16: 2 ** -10, float32: 2 ** -23, float64: 2 ** -52 };
const WIDTH = {
  int8: 8,
  int16: 16,
  int32: 32,
  int64: 64,
  uint8: 8,
  uint16: 16,
  uint32: 32,
  uint64: 64,
};

/** So long the page is busy before it looks whether there is something else to do. */
const BUSY_MS = 25;

/** Whether elements of this type can be checked here. */
export function canCheck(dtype) {
  return dtype in EPSILON || dtype in WIDTH;
}

/** Compare a product with its operands, each {rows, columns, elements, steps}.
 *
 * Gives {right, expectedNorm, norm, worst, allowed}: the lengths of A·(B·x) and C·x, and the largest
 * difference of two of their elements with what is allowed, both in units of |A|·|B|·|x|. `right` is
 * null where C has elements that are not finite: they may be right, and cannot be compared.
 */
export async function checkProduct(a, b, c, dtype) {
  const x = makeNumbers(c.columns, dtype);
  const inside = await multiply(b, x, dtype);
  const expected = await multiply(a, inside, dtype);
  const found = await multiply(c, x, dtype);
  const norms = { expectedNorm: measure(expected), norm: measure(found) };
  if (dtype in WIDTH) {
    const right = expected.every((value, row) => value === found[row]);
    return { ...norms, right, worst: right ? 0 : 1, allowed: 0 };
  }
  if (!Number.isFinite(norms.norm)) return { ...norms, right: null };
  const scale = await multiply(a, await multiply(b, x, dtype, Math.abs), dtype, Math.abs);
  const products = await multiply(c, x, dtype, Math.abs);
  let worst = 0;
  for (let row = 0; row < c.rows; row += 1) {
    const off = Math.abs(expected[row] - found[row]) / (Math.max(scale[row], products[row]) || 1);
    worst = Math.max(worst, off);
  }
  const allowed = EPSILON[dtype] * (dtype === "float16" ? 1 : 4 + Math.sqrt(a.columns));
  return { ...norms, right: worst <= allowed, worst, allowed };
}

/** A matrix times a vector; with `sign` of Math.abs, all numbers without their signs. */
async function multiply({ rows, columns, elements, steps }, vector, dtype, sign = null) {
  const [rowStep, columnStep] = steps;
  const sum = chooseSum(dtype);
  const result = [];
  let pause = performance.now() + BUSY_MS;
  for (let row = 0; row < rows; row += 1) {
    result.push(sum(elements, row * rowStep, columnStep, vector, columns, sign));
    if (performance.now() > pause) {
      await new Promise((done) => setTimeout(done));
      pause = performance.now() + BUSY_MS;
    }
  }
  return result;
}

function chooseSum(dtype) {
  if (!(dtype in WIDTH)) return sumFloats;
  if (WIDTH[dtype] < 64) {
    const shift = 32 - WIDTH[dtype];
    return dtype.startsWith("u")
      ? (...all) => (sumWhole(...all) << shift) >>> shift
      : (...all) => (sumWhole(...all) << shift) >> shift;
  }
  const wrap = dtype === "int64" ? BigInt.asIntN : BigInt.asUintN;
  return (...all) => wrap(64, sumBig(...all));
}

function sumFloats(elements, begin, step, vector, count, sign) {
  let sum = 0;
  if (sign === null) {
    for (let at = 0; at < count; at += 1) sum += elements[begin + at * step] * vector[at];
  } else {
    for (let at = 0; at < count; at += 1) sum += Math.abs(elements[begin + at * step] * vector[at]);
  }
  return sum;
}

function sumWhole(elements, begin, step, vector, count) {
  let sum = 0;
  for (let at = 0; at < count; at += 1)
    sum = (sum + Math.imul(elements[begin + at * step], vector[at])) | 0;
  return sum;
}

function sumBig(elements, begin, step, vector, count) {
  let sum = 0n;
  for (let at = 0; at < count; at += 1) sum += elements[begin + at * step] * vector[at];
  return sum;
}

/** Random numbers of about 1; of whole numbers odd ones, so that no wrong bit is multiplied away. */
function makeNumbers(count, dtype) {
  const random = crypto.getRandomValues.bind(crypto);
  const numbers = Array.from({ length: count }, () => random(new Uint32Array(1))[0]);
  if (!(dtype in WIDTH)) return numbers.map((one) => (one % 2 ? 1 : -1) * (0.5 + one / 2 ** 33));
  const odd = numbers.map((one) => (one & 0xff) | 1);
  return WIDTH[dtype] === 64 ? odd.map(BigInt) : odd;
}

function measure(vector) {
  return vector.reduce((sum, one) => Math.hypot(sum, Number(one)), 0);
}
