/** .npy files: what their head says, and their elements. */

const MAGIC = "\x93NUMPY";
const HEAD_BYTES = 1 << 16;

const read = (Numbers) => (bytes) => new Numbers(bytes);

/** Types by NumPy's own names in a head: [name, what makes numbers of their bytes, numbers an element].
 *
 * NumPy has no name for bfloat16, which it writes as two bytes of nothing.
 */
const TYPES = {
  f2: ["float16", readHalves],
  V2: ["bfloat16", readBrains],
  f4: ["float32", read(Float32Array)],
  f8: ["float64", read(Float64Array)],
  i1: ["int8", read(Int8Array)],
  i2: ["int16", read(Int16Array)],
  i4: ["int32", read(Int32Array)],
  i8: ["int64", read(BigInt64Array)],
  u1: ["uint8", read(Uint8Array)],
  u2: ["uint16", read(Uint16Array)],
  u4: ["uint32", read(Uint32Array)],
  u8: ["uint64", read(BigUint64Array)],
  c8: ["complex64", read(Float32Array), 2],
  c16: ["complex128", read(Float64Array), 2],
};

/** What a file's head says: {dtype, rows, columns, isFortran, headBytes, make, parts}; an Error if it is none.
 *
 * `make` is null for elements that the page cannot read.
 */
export async function readHead(file) {
  const bytes = new Uint8Array(await file.slice(0, HEAD_BYTES).arrayBuffer());
  const name = file.name ?? "the product";
  if (String.fromCharCode(...bytes.subarray(0, 6)) !== MAGIC)
    throw new Error(`${name} is not a .npy file`);
  const isOld = bytes[6] === 1;
  const view = new DataView(bytes.buffer);
  const begin = isOld ? 10 : 12;
  const headBytes = begin + (isOld ? view.getUint16(8, true) : view.getUint32(8, true));
  const text = new TextDecoder("latin1").decode(bytes.subarray(begin, headBytes));
  const shape = /'shape': \(([^)]*)\)/.exec(text)?.[1].match(/\d+/g)?.map(Number) ?? [];
  if (shape.length !== 2)
    throw new Error(`${name} has ${shape.length} dimensions; a matrix has two`);
  const [, order, code] = /'descr': '([<>|=])([A-Za-z]\d+)'/.exec(text) ?? [];
  const [dtype, make, parts = 1] = TYPES[code] ?? [code, null];
  const isFortran = /'fortran_order': True/.test(text);
  const [rows, columns] = shape;
  const readable = order === ">" ? null : make;
  return { dtype, rows, columns, isFortran, headBytes, make: readable, parts };
}

/** A file's elements as numbers, with the steps to the next row and column, in elements. */
export async function readElements(file, head) {
  const { rows, columns, isFortran, headBytes, make, parts } = head;
  const bytes = await file.slice(headBytes).arrayBuffer();
  const elements = make(bytes);
  if (elements.length !== parts * rows * columns)
    throw new Error(
      `${file.name ?? "the product"} has ${elements.length / parts} of ${rows * columns} elements`,
    );
  return { rows, columns, elements, steps: isFortran ? [1, rows] : [columns, 1] };
}

/** The upper halves of float32. */
function readBrains(bytes) {
  const bits = Uint32Array.from(new Uint16Array(bytes), (half) => half * 2 ** 16);
  return new Float32Array(bits.buffer);
}

/** IEEE half precision, which not every browser has as an array. */
function readHalves(bytes) {
  const halves = new Uint16Array(bytes);
  const floats = new Float32Array(halves.length);
  for (let index = 0; index < halves.length; index += 1) floats[index] = widen(halves[index]);
  return floats;
}

function widen(half) {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 31;
  const fraction = half & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1024 + fraction) * 2 ** (exponent - 25);
}
