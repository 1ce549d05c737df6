/** Sums of products by type of element: wrapping whole numbers, floats, complex numbers.
 *
 * A row times a vector is `sum(elements, begin, step, vector, count)`. Vectors are of numbers, of
 * BigInt for 64 bits, and of pairs [real, imaginary] for complex types, whose elements lie in pairs.
 */

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

/** What a type is computed with.
 *
 * `makeNumbers(count)` is a random vector, `measure(one)` a number's size, `findDistance(one, other)`
 * how far two are apart; `sumSizes` sums sizes of elements with a vector of sizes.
 */
export function findSums(dtype) {
  if (dtype.startsWith("complex")) return COMPLEX;
  return dtype in WIDTH ? makeWhole(dtype) : FLOATS;
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

/** Whole numbers; those of the vector are odd, so that no wrong bit is multiplied away. */
function makeWhole(dtype) {
  const makeOdd = (count) => makeRandom(count).map((one) => (one & 0xff) | 1);
  const measure = (one) => Math.abs(Number(one));
  if (WIDTH[dtype] === 64) {
    const wrap = dtype === "int64" ? BigInt.asIntN : BigInt.asUintN;
    const sum = (...all) => wrap(64, sumBig(...all));
    return { makeNumbers: (count) => makeOdd(count).map(BigInt), sum, measure };
  }
  const shift = 32 - WIDTH[dtype];
  const sum = dtype.startsWith("u")
    ? (...all) => (sumWhole(...all) << shift) >>> shift
    : (...all) => (sumWhole(...all) << shift) >> shift;
  return { makeNumbers: makeOdd, sum, measure };
}

function sumFloats(elements, begin, step, vector, count) {
  let sum = 0;
  for (let at = 0; at < count; at += 1) sum += elements[begin + at * step] * vector[at];
  return sum;
}

function sumFloatSizes(elements, begin, step, vector, count) {
  let sum = 0;
  for (let at = 0; at < count; at += 1) sum += Math.abs(elements[begin + at * step]) * vector[at];
  return sum;
}

function sumComplex(elements, begin, step, vector, count) {
  let [real, imaginary] = [0, 0];
  for (let at = 0; at < count; at += 1) {
    const place = 2 * (begin + at * step);
    const [x, y] = vector[at];
    real += elements[place] * x - elements[place + 1] * y;
    imaginary += elements[place] * y + elements[place + 1] * x;
  }
  return [real, imaginary];
}

function sumComplexSizes(elements, begin, step, vector, count) {
  let sum = 0;
  for (let at = 0; at < count; at += 1) {
    const place = 2 * (begin + at * step);
    sum += Math.hypot(elements[place], elements[place + 1]) * vector[at];
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

function makeRandom(count) {
  return Array.from({ length: count }, () => crypto.getRandomValues(new Uint32Array(1))[0]);
}

/** From ±0.5 to ±1. */
function makeFloat(random) {
  return (random % 2 ? 1 : -1) * (0.5 + random / 2 ** 33);
}
