/** Headers of NumPy's .npy files. */

const MAGIC = "\x93NUMPY";
/** Bytes that are read for the header; NumPy's have 128. */
const HEADER_BYTES = 1 << 16;

/** Element types by NumPy's codes. bfloat16 has none and is written as V2, two raw bytes. */
const TYPES = {
  f2: "float16",
  V2: "bfloat16",
  f4: "float32",
  f8: "float64",
  i1: "int8",
  i2: "int16",
  i4: "int32",
  i8: "int64",
  u1: "uint8",
  u2: "uint16",
  u4: "uint32",
  u8: "uint64",
  c8: "complex64",
  c16: "complex128",
};

/** Names of types that are not numbers, by the first letter of their code. */
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
 * It is {dtype, rows, columns, headerBytes, itemBytes, isTaken}; `isTaken`: whether the service
 * takes its elements: little-endian numbers.
 */
export async function readHeader(file) {
  const bytes = new Uint8Array(await file.slice(0, HEADER_BYTES).arrayBuffer());
  const { name } = file;
  if (bytes.length < 12 || String.fromCharCode(...bytes.subarray(0, 6)) !== MAGIC)
    throw new Error(`${name} is not a .npy file${isText(bytes) ? ": it looks like text" : ""}`);
  const isVersion1 = bytes[6] === 1; // a length of two bytes, not four
  const view = new DataView(bytes.buffer);
  const begin = isVersion1 ? 10 : 12;
  const headerBytes = begin + (isVersion1 ? view.getUint16(8, true) : view.getUint32(8, true));
  const text = new TextDecoder("latin1").decode(bytes.subarray(begin, headerBytes));
  const shape = /'shape': \(([^)]*)\)/.exec(text)?.[1].match(/\d+/g)?.map(Number) ?? [];
  if (shape.length !== 2)
    throw new Error(`${name} has ${shape.length} dimensions; a matrix has two`);
  const [, order, code] = /'descr': '([<>|=]?)([^']*)'/.exec(text) ?? [];
  const kind = Object.keys(TYPES).find((one) => one === code || TYPES[one] === code) ?? code;
  const [rows, columns] = shape;
  const isTaken = Object.hasOwn(TYPES, kind) && order !== ">"; // without an order it is "<"
  const dtype = nameType(kind, text);
  return { dtype, rows, columns, headerBytes, itemBytes: Number(kind?.slice(1)), isTaken };
}

/** A .npy file of random float64 elements from -1 to 1. */
export function makeRandomFile(name, rows, columns) {
  const magic = Uint8Array.from(`${MAGIC}\x01\x00\x76\x00`, (one) => one.charCodeAt(0));
  const text = `{'descr': '<f8', 'fortran_order': False, 'shape': (${rows}, ${columns}), }`;
  const header = `${text.padEnd(117)}\n`; // 0x76 bytes, 128 with those before it
  const elements = Float64Array.from({ length: rows * columns }, () => 2 * Math.random() - 1);
  return new File([magic, header, elements], name);
}

/** Whether bytes begin with characters of plain text. */
function isText(bytes) {
  const isPlain = (byte) => (byte >= 32 && byte < 127) || byte === 9 || byte === 10 || byte === 13;
  return bytes.length > 0 && bytes.subarray(0, 64).every(isPlain);
}

/** The name of a type by its code. */
function nameType(code, text) {
  if (!code) return text.includes("'descr': [") ? "several fields" : "no number";
  return Object.hasOwn(TYPES, code) ? TYPES[code] : (OTHERS[code[0]] ?? code);
}

/** Make sure that a file has a matrix as the service takes it; throws an Error if not. */
export function checkFile(file, { dtype, rows, columns, headerBytes, itemBytes, isTaken }) {
  if (!isTaken)
    throw new Error(`${file.name} has elements of ${dtype}. The service takes little-endian numbers.`);
  const bytes = headerBytes + rows * columns * itemBytes;
  if (file.size !== bytes)
    throw new Error(`${file.name} has ${file.size} bytes; its header announces ${bytes}`);
}
