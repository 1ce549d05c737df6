/** Sums of products by element type: wrapping integers, floating-point numbers, complex numbers.
 *
 * A row times a vector is `sum(elements, begin, stride, vector, count)`. Vectors are of numbers; of
 * BigInt for integers of 64 bits; of pairs [real, imaginary] for complex types, whose elements are
 * pairs of numbers in memory.
 */

const INTEGER_BITS = {
  int8: 8,
  int16: 16,
  int32: 32,
  int64: 64,
  uint8: 8,
  uint16: 16,
  uint32: 32,
  uint64: 64,
};

/** The functions that compute with an element type.
 *
 * `makeNumbers(count)` is a random vector, `measure(one)` the magnitude of a number,
 * `findDistance(one, other)` that of a difference. `sumSizes` is `sum` with the magnitudes of the
 * elements, and a vector of magnitudes. Integers have neither of the last two.
 */
export function findSums(dtype) {
  if (dtype.startsWith("complex")) return COMPLEX;
  return dtype in INTEGER_BITS ? makeIntegers(dtype) : FLOATS;
}

const FLOATS = {
  makeNumbers: (count) => makeRandom(count).map(makeFloat),
  sum: sumFloats,
  sumSizes: sumFloatSizes,
  measure: Math.abs,
  findDistance: (one, other) => Math.abs(one - other),
};

const COMPLEX = {
  makeNumbers: (count) => makeRandom(count).map((one) => [makeFloat(one), 0]),
  sum: sumComplex,
  sumSizes: sumComplexSizes,
  measure: ([real, imaginary]) => Math.hypot(real, imaginary),
  findDistance: (one, other) => Math.hypot(one[0] - other[0], one[1] - other[1]),
};

/** Integers; those of the vector are odd, so that a wrong bit stays wrong when it is multiplied. */
function makeIntegers(dtype) {
  const makeOdd = (count) => makeRandom(count).map((one) => (one & 0xff) | 1);
  const measure = (one) => Math.abs(Number(one));
  if (INTEGER_BITS[dtype] === 64) {
    const wrap = dtype === "int64" ? BigInt.asIntN : BigInt.asUintN;
    const sum = (...all) => wrap(64, sumBig(...all));
    return { makeNumbers: (count) => makeOdd(count).map(BigInt), sum, measure };
  }
  const shift = 32 - INTEGER_BITS[dtype];
  const sum = dtype.startsWith("u")
    ? (...all) => (sumIntegers(...all) << shift) >>> shift
    : (...all) => (sumIntegers(...all) << shift) >> shift;
  return { makeNumbers: makeOdd, sum, measure };
}

function sumFloats(elements, begin, stride, vector, count) {
  let sum = 0;
  for (let at = 0; at < count; at += 1) sum += elements[begin + at * stride] * vector[at];
  return sum;
}

function sumFloatSizes(elements, begin, stride, vector, count) {
  let sum = 0;
  for (let at = 0; at < count; at += 1) sum += Math.abs(elements[begin + at * stride]) * vector[at];
  return sum;
}

function sumComplex(elements, begin, stride, vector, count) {
  let [real, imaginary] = [0, 0];
  for (let at = 0; at < count; at += 1) {
    const place = 2 * (begin + at * stride);
    const [x, y] = vector[at];
    real += elements[place] * x - elements[place + 1] * y;
    imaginary += elements[place] * y + elements[place + 1] * x;
  }
  return [real, imaginary];
}

function sumComplexSizes(elements, begin, stride, vector, count) {
  let sum = 0;
  for (let at = 0; at < count; at += 1) {
    const place = 2 * (begin + at * stride);
    sum += Math.hypot(elements[place], elements[place + 1]) * vector[at];
  }
  return sum;
}

function sumIntegers(elements, begin, stride, vector, count) {
  let sum = 0;
  for (let at = 0; at < count; at += 1)
    sum = (sum + Math.imul(elements[begin + at * stride], vector[at])) | 0;
  return sum;
}

function sumBig(elements, begin, stride, vector, count) {
  let sum = 0n;
  for (let at = 0; at < count; at += 1) sum += elements[begin + at * stride] * vector[at];
  return sum;
}

function makeRandom(count) {
  return Array.from({ length: count }, () => crypto.getRandomValues(new Uint32Array(1))[0]);
}

/** A number from ±0.5 to ±1. */
function makeFloat(random) {
  return (random % 2 ? 1 : -1) * (0.5 + random / 2 ** 33);
}
