/** .npy files: what their head says, and their elements. */

const MAGIC = "\x93NUMPY";
const HEAD_BYTES = 1 << 16;

/** Types by NumPy's own names in a head, with what makes an array of their bytes. */
const TYPES = {
  f2: ["float16", readHalves],
  f4: ["float32", Float32Array],
  f8: ["float64", Float64Array],
  i1: ["int8", Int8Array],
  i2: ["int16", Int16Array],
  i4: ["int32", Int32Array],
  i8: ["int64", BigInt64Array],
  u1: ["uint8", Uint8Array],
  u2: ["uint16", Uint16Array],
  u4: ["uint32", Uint32Array],
  u8: ["uint64", BigUint64Array],
};

/** What a file's head says: {dtype, rows, columns, isFortran, headBytes, make}; an Error if it is none. */
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
  const [dtype, make] = TYPES[code] ?? [code, null];
  const isFortran = /'fortran_order': True/.test(text);
  const [rows, columns] = shape;
  return { dtype, rows, columns, isFortran, headBytes, make: order === ">" ? null : make };
}

/** A file's elements as numbers: {rows, columns, at(row, column)}, column by column where it is so. */
export async function readElements(file, head) {
  const { rows, columns, isFortran, headBytes, make } = head;
  const bytes = await file.slice(headBytes).arrayBuffer();
  const elements = make === readHalves ? readHalves(bytes) : new make(bytes);
  if (elements.length !== rows * columns)
    throw new Error(
      `${file.name ?? "the product"} has ${elements.length} of ${rows * columns} elements`,
    );
  return { rows, columns, elements, steps: isFortran ? [1, rows] : [columns, 1] };
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
