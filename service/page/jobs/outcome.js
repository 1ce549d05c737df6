/** A product that came back, beside what was expected of it. */

import { make } from "../dom.js";
import { readElements, readHead } from "../npy.js";
import { showNumber, showWhole } from "../units.js";
import { checkProduct } from "./product_check.js";

/** Compare a product with the files {a, b} that it is of, each {file, head}.
 *
 * Gives {rows, told}: [what, expected, found, right] for the size and the
 * length of C·x; and how far both are apart, in words.
 */
export async function compareProduct(product, { a, b }) {
  const head = await readHead(product);
  const expected = { rows: a.head.rows, columns: b.head.columns };
  const fits = head.rows === expected.rows && head.columns === expected.columns;
  const size = ["Size", showSize(expected), showSize(head), fits];
  if (!fits) return { rows: [size], told: "It is no product of A and B." };
  const parts = [
    [a.file, a.head],
    [b.file, b.head],
    [product, head],
  ];
  const read = await Promise.all(parts.map((part) => readElements(...part)));
  const found = await checkProduct(...read, head.dtype);
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
  const cells = ([name, expected, found, right]) => [
    make("th", { scope: "row", textContent: name }),
    make("td", { textContent: expected }),
    make("td", { textContent: found }),
    make("td", VERDICTS.get(right)),
  ];
  const heads = ["", "expected", "of C", ""];
  return make(
    "table",
    { className: "comparison" },
    make("caption", { className: "sr", textContent: "The product that came back" }),
    make(
      "thead",
      {},
      make(
        "tr",
        {},
        ...heads.map((text) =>
          make(text ? "th" : "td", { scope: text ? "col" : null, textContent: text }),
        ),
      ),
    ),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...cells(row)))),
  );
}

function tellFound({ isWhole, right, worst }) {
  if (right === null) return "C has elements that are not finite.";
  if (isWhole) return right ? "Every element of C·x is equal." : "Elements of C·x differ.";
  return `The largest difference is ${showNumber(worst)} of what rounding may make.`;
}

function showSize({ rows, columns }) {
  return `${showWhole(rows)} × ${showWhole(columns)}`;
}

function showNorm(value) {
  return Math.abs(value) < 1e6 ? String(Number(value.toPrecision(7))) : value.toExponential(6);
}
