/** The stored matrices: size, age, use, and a way to delete them. */

import { make } from "../dom.js";
import { saveFile } from "../files.js";
import { showAge, showBytes, showWhole } from "../units.js";
import { makeMeter } from "./meter.js";

const SHOWN = 50;
const HEADS = ["Matrix", "Shape", "Size", "Stored", "Where", "Used by", ""];

/** The table, kept up to date row by row. */
export class MatrixTable {
  /** `refuse(error)` is told what the service refuses. */
  constructor(service, refuse) {
    Object.assign(this, { service, refuse });
    this.rows = new Map();
    this.pages = 1;
    this.quota = make("div");
    this.empty = make("p", { className: "caption", textContent: "No matrix is stored." });
    this.body = make("tbody");
    this.more = makeQuiet("Older matrices", () => {
      this.pages += 1;
      this.attempt(() => this.load(this.me));
    });
    const heads = HEADS.map((text) =>
      text ? make("th", { scope: "col", textContent: text }) : make("td"),
    );
    this.table = make(
      "table",
      { className: "matrices" },
      make("caption", { className: "sr", textContent: "Stored matrices, newest first" }),
      make("thead", {}, make("tr", {}, ...heads)),
      this.body,
    );
    const wide = { className: "wide", tabIndex: 0, role: "region", "aria-label": "Matrices" };
    this.element = make(
      "section",
      { className: "panel", id: "matrices", "aria-labelledby": "matrices-title" },
      make("h2", { id: "matrices-title", textContent: "Stored matrices" }),
      this.quota,
      this.empty,
      make("div", wide, this.table),
      make("p", {}, this.more),
    );
  }

  /** Show the matrices that there are; `me` has the caller's quota. */
  async load(me) {
    this.me = me;
    const found = [];
    let cursor = null;
    for (let page = 0; page < this.pages; page += 1) {
      const query = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const answer = await this.service.get(`v1/matrices?limit=${SHOWN}${query}`);
      found.push(...answer.matrices);
      cursor = answer.next_cursor;
      if (cursor === null) break;
    }
    this.more.hidden = cursor === null;
    this.showQuota(me.stored_bytes);
    this.showRows(found);
  }

  showQuota({ used, limit }) {
    const told = limit === null ? showBytes(used) : `${showBytes(used)} of ${showBytes(limit)}`;
    const meter = limit === null ? [] : [makeMeter([["used", used]], limit, `Quota: ${told}`)];
    const text = `Yours: ${told}.`;
    this.quota.replaceChildren(...meter, make("p", { className: "caption", textContent: text }));
  }

  showRows(matrices) {
    const there = new Set(matrices.map(({ id }) => id));
    for (const [id, row] of this.rows) {
      if (!there.has(id)) {
        row.element.remove();
        this.rows.delete(id);
      }
    }
    let before = null;
    for (const matrix of matrices) {
      const row = this.rows.get(matrix.id) ?? this.makeRow(matrix);
      row.update(matrix);
      // Rows keep their order, so those that are known stay where they are, with their focus.
      if (!row.element.isConnected)
        before === null ? this.body.prepend(row.element) : before.after(row.element);
      before = row.element;
    }
    this.empty.hidden = matrices.length > 0;
    this.table.parentElement.hidden = matrices.length === 0;
  }

  makeRow({ id }) {
    const row = new MatrixRow(id, {
      fetch: () => this.attempt(() => this.fetch(id)),
      remove: () => this.attempt(() => this.remove(id)),
    });
    this.rows.set(id, row);
    return row;
  }

  async fetch(id) {
    const answer = await this.service.call("GET", `v1/matrices/${id}/data`);
    saveFile(`${id}.npy`, await answer.blob());
  }

  async remove(id) {
    await this.service.call("DELETE", `v1/matrices/${id}`);
    await this.load(await this.service.get("v1/me"));
  }

  async attempt(action) {
    try {
      await action();
    } catch (error) {
      this.refuse(error);
    }
  }
}

/** One matrix; it is deleted by two presses, since it cannot be had back. */
class MatrixRow {
  constructor(id, { fetch, remove }) {
    this.cells = HEADS.slice(1, -1).map((head) => make("td", { "data-head": head }));
    this.fetch = makeQuiet("Download", fetch);
    this.remove = makeQuiet("Delete", () => (this.asked ? remove() : this.ask(true)));
    this.keep = makeQuiet("Keep", () => this.ask(false));
    for (const [one, text] of [
      [this.fetch, "Download"],
      [this.keep, "Keep"],
    ])
      one.setAttribute("aria-label", `${text} matrix ${id.slice(0, 8)}`);
    this.id = id;
    this.element = make(
      "tr",
      { "data-matrix": id },
      make("th", { scope: "row", title: id, textContent: id.slice(0, 8) }),
      ...this.cells,
      make("td", { className: "actions" }, this.fetch, this.remove, this.keep),
    );
    this.ask(false);
  }

  ask(asked) {
    this.asked = asked;
    this.keep.hidden = !asked;
    this.fetch.hidden = asked;
    this.remove.textContent = asked ? "Yes, delete" : "Delete";
    this.remove.setAttribute(
      "aria-label",
      `${this.remove.textContent}: matrix ${this.id.slice(0, 8)}`,
    );
    this.remove.classList.toggle("danger", asked);
  }

  update(matrix) {
    const { shape, dtype, bytes, created_at: created, where, state, used_by: users } = matrix;
    const owner = matrix.owner ? ` (${matrix.owner})` : "";
    const jobs = users.length === 1 ? "1 job" : `${users.length} jobs`;
    const texts = [
      `${shape.map(showWhole).join(" × ")} ${dtype}`,
      showBytes(bytes),
      showAge(created) + owner,
      state === "damaged" ? "damaged" : where,
      users.length ? jobs : "–",
    ];
    texts.forEach((text, index) => {
      if (this.cells[index].textContent !== text) this.cells[index].textContent = text;
    });
    this.remove.disabled = users.length > 0;
    this.remove.title = users.length ? "A job needs it." : "";
  }
}

function makeQuiet(text, onclick) {
  return make("button", { type: "button", className: "quiet", textContent: text, onclick });
}
