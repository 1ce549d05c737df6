/** The jobs with their progress, and a form that multiplies two files. */

import { makeKey } from "../chart.js";
import { makeButton } from "../controls.js";
import { make } from "../dom.js";
import { follow } from "../events.js";
import { saveFile } from "../files.js";
import { Notice } from "../notice.js";
import { readState, writeState } from "../state.js";
import { JobCard } from "./job_card.js";
import { ProductForm } from "./product_form.js";

/** Jobs of one page of the list, and the most that the service lists at once. */
const PAGE = 20;
const LONGEST_PAGE = 200;
const AGE_MS = 1000;

export class View {
  constructor(root, frame) {
    this.frame = frame;
    this.cards = new Map();
    this.shapes = new Shapes(frame.service);
    this.cursor = null;
    this.notice = new Notice(frame.service, () => this.open());
    this.product = new ProductForm(frame.service, {
      tell: (error) => this.tell("multiply", error),
      waitForEnd: (job) => this.waitForEnd(job),
    });
    this.list = make("ul", { className: "jobs" });
    this.live = make("p", { className: "caption live", role: "status" });
    this.told = make("p", { className: "sr", role: "status", id: "told" });
    this.empty = make("p", { className: "panel", textContent: "No job has been posted yet." });
    this.older = makeButton("Older jobs", () => this.attempt("older", () => this.loadOlder()));
    this.layOut(root);
    this.ageTimer = setInterval(() => this.cards.forEach((card) => card.age()), AGE_MS);
    // A browser allows few connections to a service: hidden tabs leave them to others.
    this.onVisibility = () => (document.hidden ? this.connection.abort() : this.open());
    document.addEventListener("visibilitychange", this.onVisibility);
    this.open();
  }

  layOut(root) {
    const keys = [
      ["gpu", "GPU's rows, from the first"],
      ["cpu", "CPU's rows, from the last"],
      ["text", "the planned boundary"],
    ].map(([colour, name]) => {
      const style = { stroke: `var(--${colour})`, "stroke-width": 6 };
      return makeKey({ name, style });
    });
    const list = make(
      "section",
      { className: "content", "aria-label": "All jobs" },
      this.notice.element,
      make("div", { className: "head" }, make("h2", { textContent: "Jobs" }), this.live),
      this.told,
      make("p", { className: "caption legend" }, ...keys),
      this.empty,
      this.list,
      make("p", {}, this.older),
    );
    const side = { className: "side", "aria-label": "A new product" };
    root.append(
      make("h1", { className: "sr", textContent: "Jobs" }),
      make(
        "div",
        { className: "layout jobs-layout" },
        make("aside", side, this.product.element),
        list,
      ),
    );
  }

  /** Follow the jobs' events over a new connection. `ready` is done once it is open, or failed. */
  open() {
    this.connection?.abort();
    this.connection = new AbortController();
    this.ready = new Promise((done) => (this.setReady = done));
    follow(this.frame.service, "v1/jobs/events", {
      signal: this.connection.signal,
      take: (name, data) => (name === "job" ? this.put(data) : this.listAnew()),
      tell: (error) => this.showConnection(error),
    });
  }

  close() {
    this.connection.abort();
    clearInterval(this.ageTimer);
    document.removeEventListener("visibilitychange", this.onVisibility);
  }

  async show(state) {
    this.state = state;
    await this.ready;
    await this.attempt("show", async () => {
      if (state.job === null || this.cards.has(state.job)) return;
      this.put(await this.frame.service.get(`v1/jobs/${encodeURIComponent(state.job)}`));
    });
    this.cards.forEach((card, id) => card.select(id === state.job));
    this.cards.get(state.job)?.element.scrollIntoView({ block: "nearest" });
  }

  /** Show whether the jobs' events are followed; `error` is null if they are. */
  async showConnection(error) {
    this.live.textContent = error === null ? "Live" : "Not connected. Retrying…";
    this.live.classList.toggle("on", error === null);
    if (error === null) {
      this.notice.clear();
      await this.listAnew();
    } else {
      this.notice.tell(error, null, true);
    }
    this.setReady();
  }

  listAnew() {
    return this.attempt("list", () => this.relist());
  }

  /** List as many of the newest jobs as are shown, and look at the others that may have ended.
   *
   * More than these may be new since the jobs were last followed, so "Older jobs" goes on from here.
   */
  async relist() {
    const shown = [...this.cards.values()].map(({ job }) => job);
    const open = new Set(shown.filter((job) => job.finished_at === null).map(({ id }) => id));
    let left = Math.max(PAGE, shown.length);
    let cursor = null;
    do {
      const page = await this.load(Math.min(left, LONGEST_PAGE), cursor);
      page.jobs.forEach(({ id }) => open.delete(id));
      left -= page.jobs.length;
      cursor = page.next_cursor;
    } while (cursor !== null && left > 0);
    this.moveTo(cursor);
    for (const id of open) await this.renew(id);
  }

  /** Put older jobs into the list: the next page with jobs that are not shown yet. */
  async loadOlder() {
    const shown = this.cards.size;
    let cursor = null;
    do {
      ({ cursor } = this);
      const page = await this.load(PAGE, cursor);
      if (this.cursor !== cursor) return; // the jobs were listed anew meanwhile
      this.moveTo(page.next_cursor);
    } while (this.cursor !== null && this.cards.size === shown);
  }

  /** Put a page of jobs into the list: the newest, or those after a cursor. */
  async load(limit, cursor) {
    const query = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const page = await this.frame.service.get(`v1/jobs?limit=${limit}${query}`);
    page.jobs.forEach((job) => this.put(job));
    this.empty.hidden = this.cards.size > 0;
    return page;
  }

  /** Older jobs begin after this cursor; null if there are none. */
  moveTo(cursor) {
    this.cursor = cursor;
    this.older.hidden = cursor === null;
  }

  /** Show a job as it is now; one that the service no longer has is taken off the list. */
  async renew(id) {
    try {
      this.put(await this.frame.service.get(`v1/jobs/${id}`));
    } catch (error) {
      if (error.status !== 404) throw error;
      const card = this.cards.get(id);
      card.element.remove();
      card.lose?.(error);
      this.cards.delete(id);
      this.empty.hidden = this.cards.size > 0;
    }
  }

  /** Show a job as it is now; a new one is inserted by the time it was posted. */
  put(job) {
    const known = this.cards.get(job.id);
    if (known) {
      // An older state may arrive after the event of its end.
      if (known.job.finished_at !== null) return;
      known.update(job);
      if (job.finished_at === null) return;
      this.told.textContent = tellEnd(job);
      known.end?.();
      return;
    }
    const card = new JobCard(job, {
      cancel: (one) => this.cancel(one),
      fetch: (one) => this.fetch(one),
      explore: (one) => this.explore(one),
    });
    const isOlder = (other) => this.cards.get(other.dataset.job).job.created_at < job.created_at;
    this.list.insertBefore(card.element, [...this.list.children].find(isOlder) ?? null);
    this.cards.set(job.id, card);
    this.empty.hidden = true;
    this.shapes.findProduct(job.request).then((product) => card.name(product));
    card.select(job.id === this.state?.job);
  }

  /** A job once it has ended. The service may be away meanwhile: its jobs outlive that. */
  async waitForEnd(job) {
    this.put(job);
    const card = this.cards.get(job.id);
    if (card.job.finished_at === null)
      await new Promise((end, lose) => Object.assign(card, { end, lose }));
    return card.job;
  }

  cancel(job) {
    return this.attempt("cancel", async () => {
      const answer = await this.frame.service.call("DELETE", `v1/jobs/${job.id}`);
      this.put(await answer.json());
    });
  }

  fetch(job) {
    return this.attempt("fetch", async () => {
      const answer = await this.frame.service.call("GET", `v1/jobs/${job.id}/result`);
      saveFile(`${job.result}.npy`, await answer.blob());
    });
  }

  /** Show a job's plan in the wave explorer, with what was measured. */
  explore(job) {
    return this.attempt("explore", async () => {
      const { kernel, tile, accuracy, sms } = job.request;
      const product = await this.shapes.findProduct(job.request);
      if (product === null) throw new Error("A or B of this job was deleted.");
      const options = { kernel, tile, accuracy, sms, f: job.plan.f, job: job.id };
      const machine = findMachine(job.plan);
      location.hash = writeState({ ...readState(""), ...product, ...machine, ...options });
    });
  }

  /** Do a named action; its error is shown until the same action succeeds. */
  async attempt(name, action) {
    try {
      await action();
      this.tell(name, null);
    } catch (error) {
      this.tell(name, error);
    }
  }

  tell(name, error) {
    if (error === null) this.notice.clear(name);
    else this.notice.tell(error, name);
  }
}

/** Shapes and element types of stored matrices, each requested once. */
class Shapes {
  constructor(service) {
    this.service = service;
    this.known = new Map();
  }

  /** {shape, dtype} of an operand, a stored matrix or the result of a job; null if it is gone. */
  find(operand) {
    const id = operand.job ?? operand;
    if (!this.known.has(id)) {
      const found = operand.job ? this.findResult(id) : this.service.get(`v1/matrices/${id}`);
      this.known.set(id, found.catch(() => null));
    }
    return this.known.get(id);
  }

  async findResult(job) {
    const { request } = await this.service.get(`v1/jobs/${job}`);
    const { m, n, dtype } = await this.findProduct(request);
    return { shape: [m, n], dtype };
  }

  /** The product of a job's request: {m, n, k, dtype}; null if an operand was deleted. */
  async findProduct(request) {
    const [a, b] = await Promise.all([this.find(request.a), this.find(request.b)]);
    if (a === null || b === null) return null;
    return { m: a.shape.at(-2), n: b.shape.at(-1), k: a.shape.at(-1), dtype: a.dtype };
  }
}

/** The machine of a plan, as the explorer names it, with the number of GPUs that had rows. */
function findMachine({ devices = [] }) {
  const gpus = devices.map(({ device }) => device).filter((one) => one.startsWith("cuda:"));
  if (gpus.length === 1 && gpus[0] !== "cuda:0") return { device: gpus[0] };
  return { device: "here", gpus: gpus.length || null };
}

/** A job's end, for screen readers. */
function tellEnd({ id, state }) {
  return `Job ${id.slice(0, 8)} has ${state === "cancelled" ? "been cancelled" : state}.`;
}
