/** Controls of forms and panels: buttons, drop-down lists, and fields with labels. */

import { make } from "./dom.js";

/** A button that is not the main one of its form. */
export function makeButton(text, onclick, properties = {}) {
  const common = { type: "button", className: "quiet", textContent: text, onclick };
  return make("button", { ...common, ...properties });
}

/** A drop-down list of values, or of [value, label]. */
export function makeSelect(id, options, onchange, properties = {}) {
  const select = make("select", { id, onchange, ...properties });
  fillSelect(select, options);
  return select;
}

/** Replace the options of a list, or of a group in one. */
export function fillSelect(list, options) {
  const named = options.map((one) => (typeof one === "string" ? [one, one] : one));
  list.replaceChildren(
    ...named.map(([value, label]) => make("option", { value, textContent: label })),
  );
}

/** An input with its label, and a hint below it if there is one. */
export function makeField(label, input, { hint = "", isWide = false } = {}) {
  const small = hint ? make("small", { id: `${input.id}-hint`, textContent: hint }) : null;
  if (small) input.setAttribute("aria-describedby", small.id);
  return make(
    "div",
    { className: isWide ? "field wide" : "field" },
    makeLabel(input, label),
    input,
    small,
  );
}

/** The label of an input. */
export function makeLabel(input, text) {
  return make("label", { htmlFor: input.id, textContent: text });
}
