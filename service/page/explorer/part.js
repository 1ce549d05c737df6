/** A panel of the explorer. */

import { make } from "../dom.js";

/** A drawing with a title, tools and a caption. */
export class Part {
  constructor(id, title, ...tools) {
    Object.assign(this, { id, title });
    this.body = make("div", { className: "drawing" });
    this.caption = make("p", { className: "caption" });
    const heading = make("h2", { id: `${id}-title`, textContent: title });
    this.element = make(
      "section",
      { className: "panel", id, "aria-labelledby": heading.id },
      make("div", { className: "head" }, heading, make("div", { className: "tools" }, ...tools)),
      this.body,
      this.caption,
    );
  }

  /** Draw at the width that there is; a caption of null is left to the caller. */
  show(drawPart, caption) {
    const figure = drawPart(Math.floor(this.body.clientWidth) || 320);
    this.body.replaceChildren(...(figure ? [figure] : []));
    if (caption !== null) this.caption.textContent = caption;
  }
}
