/** A section of a view. */

import { make } from "./dom.js";

/** A body, such as a drawing, with a title, controls and a caption. */
export class Section {
  constructor(id, title, ...controls) {
    Object.assign(this, { id, title });
    this.body = make("div", { className: "body" });
    this.caption = make("p", { className: "caption" });
    const heading = make("h2", { id: `${id}-title`, textContent: title });
    const tools = make("div", { className: "tools" }, ...controls);
    this.element = make(
      "section",
      { className: "panel", id, "aria-labelledby": heading.id },
      make("div", { className: "head" }, heading, tools),
      this.body,
      this.caption,
    );
  }

  /** Show what `drawBody(width)` draws; a caption of null is left as it is. */
  show(drawBody, caption) {
    const figure = drawBody(Math.floor(this.body.clientWidth) || 320);
    this.body.replaceChildren(...(figure ? [figure] : []));
    if (caption !== null) this.caption.textContent = caption;
  }
}
