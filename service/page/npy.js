/** NumPy's .npy files: their header and their elements. */

const MAGIC = "\x93NUMPY";
/** Bytes that are read for the header; NumPy's have 128. */
const HEADER_BYTES = 1 << 16;

const decode = (Numbers) => (bytes) => new Numbers(bytes);

/** Element types by NumPy's codes: [name, decoder of bytes, numbers of an element].
 *
 * NumPy has no code for bfloat16, which is written as V2, two bytes of any kind.
 */
const TYPES = {
  f2: ["float16", decodeFloat16],
  V2: ["bfloat16", decodeBfloat16],
  f4: ["float32", decode(Float32Array)],
  f8: ["float64", decode(Float64Array)],
  i1: ["int8", decode(Int8Array)],
  i2: ["int16", decode(Int16Array)],
  i4: ["int32", decode(Int32Array)],
  i8: ["int64", decode(BigInt64Array)],
  u1: ["uint8", decode(Uint8Array)],
  u2: ["uint16", decode(Uint16Array)],
  u4: ["uint32", decode(Uint32Array)],
  u8: ["uint64", decode(BigUint64Array)],
  c8: ["complex64", decode(Float32Array), 2],
  c16: ["complex128", decode(Float64Array), 2],
};

/** Names of types that are no number's, by the first letter of their code. */
const OTHERS = {
  b: "bool",
  m: "timedelta64",
  M: "datetime64",
  O: "object",
  S: "bytes",
  U: "text",
  V: "raw bytes",
};

/** The header of a file; throws an Error if it has none.
 *
 * It is {dtype, rows, columns, isFortran, headerBytes, itemBytes, decode, numbers}.
 * `decode` makes an array of numbers from the elements' bytes, null for a type that the page cannot
 * read. `numbers`: numbers of an element, 2 for complex types.
 */
export async function readHeader(file) {
  const bytes = new Uint8Array(await file.slice(0, HEADER_BYTES).arrayBuffer());
  const name = file.name ?? "the product";
  if (bytes.length < 12 || String.fromCharCode(...bytes.subarray(0, 6)) !== MAGIC)
    throw new Error(`${name} is not a .npy file`);
  const isVersion1 = bytes[6] === 1; // with a length of two bytes, in place of four
  const view = new DataView(bytes.buffer);
  const begin = isVersion1 ? 10 : 12;
  const headerBytes = begin + (isVersion1 ? view.getUint16(8, true) : view.getUint32(8, true));
  const text = new TextDecoder("latin1").decode(bytes.subarray(begin, headerBytes));
  const shape = /'shape': \(([^)]*)\)/.exec(text)?.[1].match(/\d+/g)?.map(Number) ?? [];
  if (shape.length !== 2)
    throw new Error(`${name} has ${shape.length} dimensions; a matrix has two`);
  const [, order, code] = /'descr': '([<>|=]?)([^']*)'/.exec(text) ?? [];
  const kind = Object.keys(TYPES).find((one) => one === code || TYPES[one][0] === code) ?? code;
  const [dtype, decoder, numbers = 1] = findType(kind, text);
  const isFortran = /'fortran_order': True/.test(text);
  const [rows, columns] = shape;
  return {
    dtype,
    rows,
    columns,
    isFortran,
    headerBytes,
    itemBytes: Number(kind?.slice(1)),
    decode: order === ">" ? null : decoder, // without an order it is the service's, little-endian
    numbers,
  };
}

/** What a code stands for, as in TYPES; the decoder of a type that is none of them is null. */
function findType(code, text) {
  if (!code) return [text.includes("'descr': [") ? "several fields" : "no number", null];
  return Object.hasOwn(TYPES, code) ? TYPES[code] : [OTHERS[code[0]] ?? code, null];
}

/** Make sure that a file has a matrix as the service takes it; throws an Error if not. */
export function checkFile(file, { dtype, rows, columns, headerBytes, itemBytes, decode }) {
  if (decode === null)
    throw new Error(`${file.name} has elements of ${dtype}; they must be a number's, little-endian`);
  const bytes = headerBytes + rows * columns * itemBytes;
  if (file.size !== bytes)
    throw new Error(`${file.name} has ${file.size} bytes; by its header it must have ${bytes}`);
}

/** A file's matrix: {rows, columns, elements, strides}; strides are those of a row and a column. */
export async function readElements(file, header) {
  const { rows, columns, isFortran, headerBytes, decode, numbers } = header;
  const elements = decode(await file.slice(headerBytes).arrayBuffer());
  if (elements.length !== numbers * rows * columns)
    throw new Error(
      `${file.name ?? "the product"} has ${elements.length / numbers} of ${rows * columns} elements`,
    );
  return { rows, columns, elements, strides: isFortran ? [1, rows] : [columns, 1] };
}

/** bfloat16 is the upper half of float32. */
function decodeBfloat16(bytes) {
  const bits = Uint32Array.from(new Uint16Array(bytes), (half) => half * 2 ** 16);
  return new Float32Array(bits.buffer);
}

/** IEEE half precision, for which not every browser has an array. */
function decodeFloat16(bytes) {
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
