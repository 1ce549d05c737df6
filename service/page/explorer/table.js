/** A table with a caption, whose first cell of each row is its name. */

import { make } from "../dom.js";

/** The table: texts of the heads, and of each row. */
export function makeTable(caption, heads, rows) {
  const lines = rows.map(([name, ...cells]) =>
    make(
      "tr",
      {},
      make("th", { scope: "row", textContent: name }),
      ...cells.map((textContent) => make("td", { textContent })),
    ),
  );
  const names = heads.map((textContent) => make("th", { scope: "col", textContent }));
  return make(
    "table",
    {},
    make("caption", { textContent: caption }),
    make("thead", {}, make("tr", {}, ...names)),
    make("tbody", {}, ...lines),
  );
}
