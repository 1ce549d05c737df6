/** Whole numbers and rounding as Python has them: what decides F must be equal, not near.
 *
 * Whole numbers are doubles here, exact below 2^53; sizes of up to 10^7 stay below that.
 */

/** ⌊amount / size⌋, for amounts from 0. */
export function divideDown(amount, size) {
  return Math.floor(amount / size);
}

/** Pieces of `size` that cover `amount`: ⌈amount / size⌉. */
export function divideUp(amount, size) {
  const whole = Math.floor(amount / size);
  return whole * size < amount ? whole + 1 : whole;
}

/** The nearest whole number; of two equally near ones the even one. */
export function roundEven(value) {
  const below = Math.floor(value);
  const rest = value - below;
  if (rest !== 0.5) return rest < 0.5 ? below : below + 1;
  return below % 2 === 0 ? below : below + 1;
}

/** Rounded to two digits. Only odd eighths lie exactly between two such numbers. */
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

/** The value of a pure function of one text and a maker, remembered; the oldest are forgotten. */
export class Memory {
  constructor(capacity) {
    this.capacity = capacity;
    this.known = new Map();
  }

  find(key, make) {
    if (!this.known.has(key)) {
      if (this.known.size >= this.capacity) this.known.delete(this.known.keys().next().value);
      this.known.set(key, make());
    }
    return this.known.get(key);
  }
}
