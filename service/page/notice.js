/** Why something cannot be shown or done; where a key is missing, it is asked for. */

import { make } from "./dom.js";
import { makeKeyForm } from "./key_form.js";
import { KeyMissing } from "./service.js";

/** The place of a view for such news. */
export class Notice {
  /** `service` is the page's; `retry()` is called when there is a key. */
  constructor(service, retry) {
    Object.assign(this, { service, retry });
    this.element = make("div", { id: "notice" });
  }

  /** Say nothing any more. */
  clear() {
    this.element.replaceChildren();
  }

  /** Tell of an error. */
  tell(error) {
    if (!(error instanceof KeyMissing)) {
      const text = { className: "problem", role: "alert", textContent: String(error.message) };
      this.element.replaceChildren(make("p", text));
      return;
    }
    if (this.element.querySelector("#key") && !error.refused) return; // it is being typed in
    this.element.replaceChildren(makeKeyForm(error.refused, (key) => this.useKey(key)));
    document.getElementById("key").focus();
  }

  useKey(key) {
    this.service.setKey(key);
    this.retry();
  }
}
