/** The form that asks for the service's API key. */

import { makeLabel } from "./controls.js";
import { make } from "./dom.js";

/** The form; `refused`: whether a key was sent already. `use(key)` gets what is typed in. */
export function makeKeyForm(refused, use) {
  const input = make("input", { type: "password", id: "key", autocomplete: "off", required: true });
  const text =
    (refused ? "The key was refused. " : "") +
    "It is kept in this tab only, until the tab is closed. " +
    "The explorer's data sheets and measured machines need none.";
  const onsubmit = (event) => {
    event.preventDefault();
    use(input.value);
  };
  return make(
    "form",
    { className: "card", onsubmit },
    make("h2", { textContent: "This service asks for an API key" }),
    make("p", { textContent: text }),
    make(
      "div",
      { className: "row" },
      makeLabel(input, "API key"),
      input,
      make("button", { type: "submit", textContent: "Use it" }),
    ),
  );
}
