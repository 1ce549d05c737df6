/** Tables with a caption, in which the first cell of each row is its name; and lists of facts. */

import { make } from "./dom.js";

/** The table; a head without text is an empty cell. A hidden caption is for screen readers. */
export function makeTable({ caption, isCaptionHidden = false, className, heads, rows = [] }) {
  const names = heads.map((text) =>
    text ? make("th", { scope: "col", textContent: text }) : make("td"),
  );
  return make(
    "table",
    { className },
    make("caption", { className: isCaptionHidden ? "sr" : null, textContent: caption }),
    make("thead", {}, make("tr", {}, ...names)),
    make("tbody", {}, ...rows),
  );
}

/** A row; each cell is a text, or the properties of its element. */
export function makeRow(name, cells) {
  const values = cells.map((cell) =>
    make("td", typeof cell === "string" ? { textContent: cell } : cell),
  );
  return make("tr", {}, make("th", { scope: "row", textContent: name }), ...values);
}

/** A table in a region that scrolls sideways on a narrow screen. */
export function makeScrollable(label, table) {
  const region = { className: "wide", tabIndex: 0, role: "region", "aria-label": label };
  return make("div", region, table);
}

/** The list of [name, value]; those with a value of null are left out. */
export function listFacts(facts) {
  const items = facts
    .filter(([, value]) => value !== null)
    .map(([name, value]) =>
      make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: value })),
    );
  return make("dl", { className: "numbers" }, ...items);
}
