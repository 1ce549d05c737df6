/** A section of a view. */

import { make } from "./dom.js";

/** A body, such as a drawing, with a title, controls and a caption. Its elements are its attributes. */
export class Section {
  constructor(id, title, ...controls) {
    Object.assign(this, { id, title });
    this.body = make("div", { className: "body" });
    this.caption = make("p", { className: "caption" });
    this.heading = make("h2", { id: `${id}-title`, textContent: title });
    const tools = make("div", { className: "tools" }, ...controls);
    this.element = make(
      "section",
      { className: "panel", id, "aria-labelledby": this.heading.id },
      make("div", { className: "head" }, this.heading, tools),
      this.body,
      this.caption,
    );
  }

  /** Show the list of elements that `drawBody(width)` gives, and a caption. */
  show(drawBody, caption = "") {
    this.body.replaceChildren(...drawBody(Math.floor(this.body.clientWidth) || 320));
    this.caption.textContent = caption;
  }
}
