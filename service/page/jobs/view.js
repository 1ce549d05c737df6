/** The jobs, as they go on, and a form that multiplies two files. */

import { makeButton } from "../controls.js";
import { make } from "../dom.js";
import { follow } from "../events.js";
import { saveFile } from "../files.js";
import { Notice } from "../notice.js";
import { readState, writeState } from "../state.js";
import { JobCard } from "./job_card.js";
import { ProductForm } from "./product_form.js";
import { Shapes } from "./shapes.js";

/** Jobs of one page of the list. */
const PAGE = 20;
const AGE_MS = 10_000;

export const VIEW = { mount };

function mount(root, frame) {
  const jobs = new Jobs(root, frame);
  return { show: (state) => jobs.show(state), close: () => jobs.close() };
}

class Jobs {
  constructor(root, frame) {
    this.frame = frame;
    this.cards = new Map();
    this.shapes = new Shapes(frame.service);
    this.cursor = null;
    this.notice = new Notice(frame.service, () => this.open());
    this.product = new ProductForm(frame.service, (error) => this.notice.tell(error));
    this.list = make("ul", { className: "jobs" });
    this.live = make("p", { className: "caption live", role: "status" });
    this.told = make("p", { className: "sr", role: "status", id: "told" });
    this.empty = make("p", { className: "panel", textContent: "No job has been posted yet." });
    this.older = makeButton("Older jobs", () => this.attempt(() => this.load(this.cursor)));
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
      ["planned", "the planned boundary"],
    ].map(([name, textContent]) => make("span", { className: `key ${name}`, textContent }));
    const list = make(
      "section",
      { className: "content", "aria-label": "All jobs" },
      this.notice.element,
      make("div", { className: "head" }, make("h2", { textContent: "Jobs" }), this.live),
      this.told,
      make("p", { className: "caption" }, ...keys),
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

  /** Follow the jobs' events over a new connection. `ready` is done once it stands, or failed. */
  open() {
    this.connection?.abort();
    this.connection = new AbortController();
    this.ready = new Promise((done) => (this.setReady = done));
    follow(this.frame.service, "v1/jobs/events", {
      signal: this.connection.signal,
      take: (name, data) => (name === "job" ? this.put(data) : this.attempt(() => this.load())),
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
    if (state.job !== null && !this.cards.has(state.job))
      await this.attempt(async () =>
        this.put(await this.frame.service.get(`v1/jobs/${encodeURIComponent(state.job)}`)),
      );
    this.cards.forEach((card, id) => card.select(id === state.job));
    this.cards.get(state.job)?.element.scrollIntoView({ block: "nearest" });
  }

  /** Show whether the jobs' events are followed; `error` is null if they are. */
  async showConnection(error) {
    this.live.textContent = error === null ? "Live" : "Not connected; it is tried again.";
    this.live.classList.toggle("on", error === null);
    if (error === null) {
      this.notice.clear();
      await this.attempt(() => this.load());
    } else {
      this.notice.tell(error);
    }
    this.setReady();
  }

  /** Put a page of jobs into the list: the newest, or those after a cursor. */
  async load(cursor = null) {
    const query = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const page = await this.frame.service.get(`v1/jobs?limit=${PAGE}${query}`);
    page.jobs.forEach((job) => this.put(job));
    if (cursor !== null || this.cursor === null) this.cursor = page.next_cursor;
    this.older.hidden = this.cursor === null;
    this.empty.hidden = this.cards.size > 0;
  }

  /** Show a job as it is now; a new one is inserted by the time it was posted. */
  put(job) {
    const known = this.cards.get(job.id);
    if (known) {
      // An older state may arrive after the event of its end.
      if (known.job.finished_at !== null) return;
      if (job.finished_at !== null)
        this.told.textContent = `Job ${job.id.slice(0, 8)} has ${tellEnd(job.state)}.`;
      known.update(job);
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

  cancel(job) {
    return this.attempt(async () => {
      const answer = await this.frame.service.call("DELETE", `v1/jobs/${job.id}`);
      this.put(await answer.json());
    });
  }

  fetch(job) {
    return this.attempt(async () => {
      const answer = await this.frame.service.call("GET", `v1/jobs/${job.id}/result`);
      saveFile(`${job.result}.npy`, await answer.blob());
    });
  }

  /** Show a job's plan in the wave explorer, with what was measured. */
  explore(job) {
    return this.attempt(async () => {
      const { kernel, tile, accuracy, sms } = job.request;
      const product = await this.shapes.findProduct(job.request);
      if (product === null) throw new Error("The operands of this job are gone.");
      const options = { kernel, tile, accuracy, sms, f: job.plan.f, job: job.id };
      const machine = findMachine(job.plan);
      location.hash = writeState({ ...readState(""), ...product, ...machine, ...options });
    });
  }

  async attempt(action) {
    try {
      await action();
    } catch (error) {
      this.notice.tell(error);
    }
  }
}

/** The machine of a plan, as the explorer names it, with the number of GPUs that had rows. */
function findMachine({ devices = [] }) {
  const gpus = devices.map(({ device }) => device).filter((one) => one.startsWith("cuda:"));
  if (gpus.length === 1 && gpus[0] !== "cuda:0") return { device: gpus[0] };
  return { device: "here", gpus: gpus.length || null };
}

/** "succeeded", "failed", "been cancelled", for screen readers. */
function tellEnd(state) {
  return state === "cancelled" ? "been cancelled" : state;
}
