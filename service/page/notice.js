/** Errors of a view: why something cannot be shown or done, or the form that asks for the key. */

import { makeLabel } from "./controls.js";
import { make } from "./dom.js";
import { KeyMissing } from "./service.js";

/** What browsers call a lost connection, in messages of their TypeErrors. */
const LOST = /fetch|network ?error|load failed|import(ing|ed)|input stream/i;

/** An error in words; browsers' own messages on connections, files and JSON explain nothing. */
export function tellError(error) {
  if (error.name === "NotReadableError") return "The file cannot be read. Choose it again.";
  if (error instanceof SyntaxError) return "Something other than wavetrim answers, such as a proxy.";
  const isLost = error instanceof TypeError && LOST.test(error.message);
  const isLate = error instanceof DOMException; // such as a time-out
  return isLost || isLate ? "The service does not answer." : error.message;
}

/** The part of a view that shows errors. */
export class Notice {
  /** `retry()` is called when the user has typed in a key. */
  constructor(service, retry) {
    Object.assign(this, { service, retry, action: null });
    this.element = make("div", { id: "notice" });
  }

  /** Remove the error; if `action` is given, only an error of that action. */
  clear(action = null) {
    if (action !== null && action !== this.action) return;
    this.element.replaceChildren();
  }

  /** Show an error, of a named action or of none; `isRetried`: whether it is tried again. */
  tell(error, action = null, isRetried = false) {
    this.action = action;
    if (!(error instanceof KeyMissing)) {
      const textContent = tellError(error) + (isRetried ? " Retrying…" : "");
      this.element.replaceChildren(make("p", { className: "problem", role: "alert", textContent }));
      return;
    }
    if (this.element.querySelector("#key") && !error.refused) return; // the user is typing it
    this.element.replaceChildren(makeKeyForm(error.refused, (key) => this.useKey(key)));
    document.getElementById("key").focus();
  }

  useKey(key) {
    this.service.setKey(key);
    this.retry();
  }
}

/** The form that asks for the API key; `refused`: whether a key was sent already. `use(key)` gets what is typed in. */
function makeKeyForm(refused, use) {
  const input = make("input", { type: "password", id: "key", autocomplete: "off", required: true });
  const text =
    (refused ? "The key was refused. " : "") +
    "It is kept in this tab only, until you close the tab. " +
    "Exercises and measured products need no key.";
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
