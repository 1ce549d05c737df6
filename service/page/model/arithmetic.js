/** Whole numbers and rounding as Python has them, so that F is equal, not only near; and a cache.
 *
 * Whole numbers are doubles here, exact below 2^53. Sizes of up to 10^7 stay below that.
 */

/** ⌊amount / size⌋, for amounts from 0. */
export function divideDown(amount, size) {
  return Math.floor(amount / size);
}

/** ⌈amount / size⌉. */
export function divideUp(amount, size) {
  const whole = Math.floor(amount / size);
  return whole * size < amount ? whole + 1 : whole;
}

/** The nearest whole number; halfway between two, the even one. */
export function roundEven(value) {
  const below = Math.floor(value);
  const rest = value - below;
  if (rest !== 0.5) return rest < 0.5 ? below : below + 1;
  return below % 2 === 0 ? below : below + 1;
}

/** Rounded to two decimals; halfway between two such numbers, the even one.
 *
 * Only odd multiples of 1/8 are exactly halfway, and `toFixed` rounds those up.
 */
export function roundHundredths(value) {
  const eighths = value * 8;
  if (Number.isInteger(eighths) && eighths % 2 !== 0) return roundEven(value * 100) / 100;
  return Number(value.toFixed(2));
}

/** The largest number below a positive one. */
export function findNextBelow(value) {
  if (value === Infinity) return Number.MAX_VALUE;
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, value);
  bits.setBigUint64(0, bits.getBigUint64(0) - 1n);
  return bits.getFloat64(0);
}

/** ⌊√value⌋. */
export function rootDown(value) {
  let root = Math.floor(Math.sqrt(value));
  while (root * root > value) root -= 1;
  while ((root + 1) * (root + 1) <= value) root += 1;
  return root;
}

/** At most `capacity` values by key; the one added first is dropped first. */
export class Cache {
  constructor(capacity) {
    this.capacity = capacity;
    this.values = new Map();
  }

  /** The value of a key, which `make()` computes if it is not in the cache. */
  find(key, make) {
    if (!this.values.has(key)) {
      if (this.values.size >= this.capacity) this.values.delete(this.values.keys().next().value);
      this.values.set(key, make());
    }
    return this.values.get(key);
  }
}
