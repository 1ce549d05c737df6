/** The product that the service computed, compared with what is expected. */

import { readElements, readHeader } from "../npy.js";
import { makeRow, makeScrollable, makeTable } from "../table.js";
import { showNumber, showWhole } from "../units.js";
import { checkProduct } from "./product_check.js";

/** Compare a product with its operands' files {a, b}, each {file, header}.
 *
 * Gives {rows, told}. Rows are [what, expected, found, right], for the size and for the length of
 * C·x; `right` is null if the two cannot be compared. `told` is the result in words.
 */
export async function compareProduct(product, { a, b }) {
  const header = await readHeader(product);
  const expected = { rows: a.header.rows, columns: b.header.columns };
  const fits = header.rows === expected.rows && header.columns === expected.columns;
  const size = ["Size", showSize(expected), showSize(header), fits];
  if (!fits) return { rows: [size], told: "It is no product of A and B." };
  const files = [a, b, { file: product, header }];
  const matrices = await Promise.all(files.map((one) => readElements(one.file, one.header)));
  const found = await checkProduct(...matrices, header.dtype);
  const norms = [found.expectedNorm, found.norm].map(showNorm);
  return { rows: [size, ["Length of C·x", ...norms, found.right]], told: tellFound(found) };
}

const VERDICTS = new Map([
  [true, { className: "right", textContent: "✓ right" }],
  [false, { className: "wrong", textContent: "✗ wrong" }],
  [null, { textContent: "not compared" }],
]);

/** The table of `compareProduct`'s rows. */
export function makeOutcome(rows) {
  const table = makeTable({
    caption: "The product that came back",
    isCaptionHidden: true,
    className: "comparison",
    heads: ["", "expected", "of C", ""],
    rows: rows.map(([name, expected, found, right]) =>
      makeRow(name, [expected, found, VERDICTS.get(right)]),
    ),
  });
  return makeScrollable("The product that came back", table);
}

function tellFound({ isWhole, right, worst }) {
  if (right === null) return "C has elements that are not finite.";
  if (worst === Infinity && !isWhole) return "Only one of C and A·B is finite in some rows.";
  if (isWhole) return right ? "Every element of C·x is equal." : "Elements of C·x differ.";
  return `The largest difference is ${showNumber(worst)} of what rounding may make.`;
}

function showSize({ rows, columns }) {
  return `${showWhole(rows)} × ${showWhole(columns)}`;
}

function showNorm(value) {
  return Math.abs(value) < 1e6 ? String(Number(value.toPrecision(7))) : value.toExponential(6);
}
