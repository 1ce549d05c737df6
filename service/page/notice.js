/** Errors of a view: why something cannot be shown or done, or the form that asks for the key. */

import { make } from "./dom.js";
import { makeKeyForm } from "./key_form.js";
import { KeyMissing } from "./service.js";

/** The place of a view for errors. */
export class Notice {
  /** `retry()` is called when the user has typed in a key. */
  constructor(service, retry) {
    Object.assign(this, { service, retry });
    this.element = make("div", { id: "notice" });
  }

  /** Show no error. */
  clear() {
    this.element.replaceChildren();
  }

  /** Show an error. */
  tell(error) {
    if (!(error instanceof KeyMissing)) {
      const text = { className: "problem", role: "alert", textContent: String(error.message) };
      this.element.replaceChildren(make("p", text));
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
