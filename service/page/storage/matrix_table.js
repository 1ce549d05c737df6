/** The stored matrices: size, age, use, and a way to delete them. */

import { makeButton } from "../controls.js";
import { make } from "../dom.js";
import { saveFile } from "../files.js";
import { makeScrollable, makeTable } from "../table.js";
import { showAge, showBytes, showWhole } from "../units.js";
import { makeMeter } from "./meter.js";

/** Matrices of one page of the list. */
const PAGE = 50;
const HEADS = ["Matrix", "Shape", "Size", "Stored", "Where", "Role", ""];

/** The table, whose rows are updated in place. */
export class MatrixTable {
  /** `refuse(error)` shows an error of the service. */
  constructor(service, refuse) {
    Object.assign(this, { service, refuse });
    this.rows = new Map();
    this.pages = 1;
    this.quota = make("div");
    this.empty = make("p", { className: "caption", textContent: "No matrix is stored." });
    this.more = makeButton("Older matrices", () => {
      this.pages += 1;
      this.attempt(() => this.load(this.me));
    });
    const table = makeTable({
      caption: "Stored matrices, newest first",
      isCaptionHidden: true,
      className: "matrices",
      heads: HEADS,
    });
    this.body = table.tBodies[0];
    this.table = makeScrollable("Matrices", table);
    this.element = make(
      "section",
      { className: "panel", id: "matrices", "aria-labelledby": "matrices-title" },
      make("h2", { id: "matrices-title", textContent: "Stored matrices" }),
      this.quota,
      this.empty,
      this.table,
      make("p", {}, this.more),
    );
  }

  /** Load the matrices and show them; `me` is the caller, with its quota. */
  async load(me) {
    this.me = me;
    const found = [];
    let cursor = null;
    for (let page = 0; page < this.pages; page += 1) {
      const query = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const answer = await this.service.get(`v1/matrices?limit=${PAGE}${query}`);
      found.push(...answer.matrices);
      cursor = answer.next_cursor;
      if (cursor === null) break;
    }
    this.roles = listRoles((await this.service.get(`v1/jobs?limit=${PAGE}`)).jobs);
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
    const stored = new Set(matrices.map(({ id }) => id));
    for (const [id, row] of this.rows) {
      if (!stored.has(id)) {
        row.element.remove();
        this.rows.delete(id);
      }
    }
    let before = null;
    for (const matrix of matrices) {
      const row = this.rows.get(matrix.id) ?? this.makeRow(matrix);
      row.update(matrix, this.roles.get(matrix.id) ?? []);
      // The order never changes, so existing rows are not moved, and the focus is not lost.
      if (!row.element.isConnected) {
        if (before === null) this.body.prepend(row.element);
        else before.after(row.element);
      }
      before = row.element;
    }
    this.empty.hidden = matrices.length > 0;
    this.table.hidden = matrices.length === 0;
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

/** What the newest jobs use each matrix for, by its id: "operand A of 0b8d3a6f", "result of …". */
function listRoles(jobs) {
  const roles = new Map();
  const add = (id, role) => id && !id.job && roles.set(id, [...(roles.get(id) ?? []), role]);
  for (const { id, request, result } of jobs) {
    const job = id.slice(0, 8);
    add(result, `result of ${job}`);
    for (const name of ["a", "b", "c"]) add(request[name], `operand ${name.toUpperCase()} of ${job}`);
  }
  return roles;
}

/** The row of a matrix. Deleting takes two clicks, because it cannot be undone. */
class MatrixRow {
  constructor(id, { fetch, remove }) {
    const name = (text) => ({ "aria-label": `${text} matrix ${id.slice(0, 8)}` });
    this.id = id;
    this.cells = HEADS.slice(1, -1).map((head) => make("td", { "data-head": head }));
    this.fetch = makeButton("Download", fetch, name("Download"));
    this.remove = makeButton("Delete", () => (this.asked ? remove() : this.ask(true)));
    this.keep = makeButton("Keep", () => this.ask(false), name("Keep"));
    this.element = make(
      "tr",
      { "data-matrix": id },
      make("th", { scope: "row", title: id }, make("span", { textContent: id })),
      ...this.cells,
      make("td", { className: "actions" }, this.fetch, this.remove, this.keep),
    );
    this.ask(false);
  }

  /** Ask whether to delete the matrix, or stop asking. */
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

  update(matrix, roles) {
    const { shape, dtype, bytes, created_at: created, where, state, used_by: users } = matrix;
    const owner = matrix.owner ? ` (${matrix.owner})` : "";
    const isUsed = users.length > 0;
    const texts = [
      `${shape.map(showWhole).join(" × ")} ${dtype}`,
      showBytes(bytes),
      showAge(created) + owner,
      state === "damaged" ? "damaged" : where,
      [...roles.slice(0, 2), roles.length > 2 ? "…" : "", isUsed ? "in use" : ""].filter(Boolean).join(", ") || "–",
    ];
    texts.forEach((text, index) => {
      if (this.cells[index].textContent !== text) this.cells[index].textContent = text;
    });
    this.remove.disabled = isUsed;
    this.remove.title = isUsed ? "A job needs it." : "";
  }
}
