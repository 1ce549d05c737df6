/** Words that explain themselves where they are pointed at, touched or focused. */

import { make } from "../dom.js";

const MEANINGS = {
  slot: "Slot: a place on the GPU where one block of threads runs. A block computes one tile.",
  tile: "Tile: the part of C that one block of threads computes.",
  wave: "Wave: the tiles that run at the same time, one in each slot. One with empty slots takes just as long.",
};

/** A text in which the first "slot", "tile" and "wave" explain themselves. */
export function explain(text) {
  const met = new Set();
  const parts = text.split(/\b((?:slot|tile|wave)s?)\b/).map((part) => {
    const word = part.replace(/s$/, "");
    if (!Object.hasOwn(MEANINGS, word) || met.has(word)) return part;
    met.add(word);
    const meaning = MEANINGS[word];
    const told = { role: "note", "data-meaning": meaning, "aria-label": `${part} (${meaning})` };
    const onclick = ({ target }) => target.focus(); // not all browsers do so at a touch
    return make("span", { className: "term", tabIndex: 0, textContent: part, onclick, ...told });
  });
  return make("span", { className: "explained" }, ...parts);
}
