/** Errors of a view: why something cannot be shown or done, or the form that asks for the key. */

import { make } from "./dom.js";
import { makeKeyForm } from "./key_form.js";
import { KeyMissing } from "./service.js";

/** The place of a view for errors. */
export class Notice {
  /** `retry()` is called when the user has typed in a key. */
  constructor(service, retry) {
    Object.assign(this, { service, retry, action: null });
    this.element = make("div", { id: "notice" });
  }

  /** Show no error; one of another action than that which is named stays. */
  clear(action = null) {
    if (action !== null && action !== this.action) return;
    this.element.replaceChildren();
  }

  /** Show an error, of an action that may be named. */
  tell(error, action = null) {
    this.action = action;
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
