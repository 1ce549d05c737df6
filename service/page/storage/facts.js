/** Names with their values. */

import { make } from "../dom.js";

/** A list of [name, value]; a value of null is left out. */
export function listFacts(facts) {
  const items = facts
    .filter(([, value]) => value !== null)
    .map(([name, value]) =>
      make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: value })),
    );
  return make("dl", { className: "numbers" }, ...items);
}
