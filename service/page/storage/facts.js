/** Facts: names with their values. */

import { make } from "../dom.js";

/** The list of [name, value]; those with a value of null are left out. */
export function listFacts(facts) {
  const items = facts
    .filter(([, value]) => value !== null)
    .map(([name, value]) =>
      make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: value })),
    );
  return make("dl", { className: "numbers" }, ...items);
}
