/** A form: two .npy files, dropped, chosen or random, that the service multiplies and checks. */

import { makeButton, makeField, makeLabel, makeSelect } from "../controls.js";
import { make } from "../dom.js";
import { checkFile, makeRandomFile, readHeader } from "../npy.js";
import { tellError } from "../notice.js";
import { showBytes, showSeconds, showWhole } from "../units.js";

/** M, K and N of two random matrices. */
const RANDOM = [1000, 800, 600];
const NPY = { "Content-Type": "application/x-npy" };

/** The form, with the steps of the product below. */
export class ProductForm {
  /** `tell(error)` shows an error of the service; null removes it. `waitForEnd(job)` follows a job. */
  constructor(service, { tell, waitForEnd }) {
    Object.assign(this, { service, tell, waitForEnd });
    this.files = { a: null, b: null };
    this.zones = { a: this.makeZone("a", "A, M × K"), b: this.makeZone("b", "B, K × N") };
    this.f = make("input", { type: "number", id: "job-f", min: 0, placeholder: "the model's choice" });
    this.storage = makeSelect("job-storage", [
      ["disk", "on disk"],
      ["memory", "in memory, until the service ends"],
    ]);
    const random = makeButton("Take two random matrices", () => this.takeRandom());
    this.button = make("button", { type: "submit", textContent: "Multiply", disabled: true });
    this.problem = make("p", { className: "problem", role: "alert", hidden: true });
    this.steps = make("ol", { className: "steps", role: "status", "aria-label": "Steps" });
    this.outcome = make("div", { id: "outcome", role: "status" });
    this.element = make(
      "form",
      { className: "form", id: "product", onsubmit: (event) => this.submit(event) },
      make("h2", { textContent: "Multiply two matrices" }),
      this.zones.a.element,
      this.zones.b.element,
      make("p", { className: "row" }, random),
      makeField("F: rows of the CPU", this.f),
      makeField("Matrices are kept", this.storage),
      make("p", { className: "row" }, this.button),
      this.problem,
      this.steps,
      this.outcome,
    );
  }

  /** Where a file is chosen or dropped. */
  makeZone(name, label) {
    const input = make("input", {
      type: "file",
      id: `file-${name}`,
      accept: ".npy",
      "aria-describedby": `told-${name}`,
      onchange: () => input.files.length && this.take(name, input.files[0]),
    });
    const told = make("small", { id: `told-${name}`, textContent: "Drop a .npy file, or choose" });
    const element = make(
      "div",
      { className: "zone", "data-zone": name },
      makeLabel(input, label),
      input,
      told,
    );
    element.addEventListener("dragover", (event) => {
      event.preventDefault();
      element.classList.add("over");
    });
    element.addEventListener("dragleave", () => element.classList.remove("over"));
    element.addEventListener("drop", (event) => {
      event.preventDefault();
      element.classList.remove("over");
      const dropped = [...event.dataTransfer.files];
      if (dropped.length > 1) return this.takeBoth(dropped);
      return dropped.length && this.take(name, dropped[0]);
    });
    return { element, told, input };
  }

  /** Two files dropped at once are A and B, in the order of their names. */
  async takeBoth(files) {
    const [a, b] = files.toSorted((one, other) => one.name.localeCompare(other.name));
    await this.take("a", a);
    await this.take("b", b);
  }

  /** Random matrices in place of files. */
  takeRandom() {
    const [m, k, n] = RANDOM;
    return this.takeBoth([makeRandomFile("random-a.npy", m, k), makeRandomFile("random-b.npy", k, n)]);
  }

  /** Read a file's header, and show whether it can be multiplied. */
  async take(name, file) {
    const { told, element, input } = this.zones[name];
    setFile(input, file);
    try {
      const header = await readHeader(file);
      checkFile(file, header);
      this.files[name] = { file, header };
      const shape = `${showWhole(header.rows)} × ${showWhole(header.columns)} ${header.dtype}`;
      told.textContent = `${file.name}: ${shape}, ${showBytes(file.size)}`;
    } catch (error) {
      this.files[name] = null;
      told.textContent = tellError(error);
    }
    element.classList.toggle("taken", this.files[name] !== null);
    element.classList.toggle("refused", this.files[name] === null);
    this.showProblem();
  }

  /** Say why the files cannot be multiplied, or let them be sent. */
  showProblem() {
    const problem = this.findProblem();
    this.problem.hidden = problem === null;
    this.problem.textContent = problem ?? "";
    this.button.disabled = problem !== null || !this.files.a || !this.files.b;
  }

  /** Why these two files cannot be multiplied; null if they can, or if one is missing. */
  findProblem() {
    const { a, b } = this.files;
    if (!a || !b) return null;
    if (a.header.columns !== b.header.rows)
      return `A has ${showWhole(a.header.columns)} columns and B has ${showWhole(b.header.rows)} rows. These must be equal.`;
    if (a.header.dtype !== b.header.dtype)
      return `A has elements of ${a.header.dtype}, B of ${b.header.dtype}. These must be equal.`;
    return null;
  }

  async submit(event) {
    event.preventDefault();
    this.button.disabled = true;
    this.steps.replaceChildren();
    this.outcome.replaceChildren();
    try {
      await this.multiply();
      this.tell(null);
    } catch (error) {
      this.step("Stopped by an error");
      this.tell(error);
    } finally {
      this.showProblem();
    }
  }

  async multiply() {
    const { a, b } = this.files;
    this.step("A and B are sent");
    const posted = await this.post(a.file, b.file);
    this.step(`Job ${posted.id.slice(0, 8)} is posted`);
    const job = await this.waitForEnd(posted);
    if (job.state !== "succeeded")
      return this.step(`It has ${job.state}${job.error ? `: ${job.error.message}` : ""}`);
    this.step(`Computed in ${showSeconds(job.timings.total_seconds)}`);
    const elements = showWhole(a.header.rows * b.header.columns);
    this.outcome.textContent = `✓ Right: all ${elements} elements of C have passed the check.`;
  }

  /** Store the files, and post their product as a job; without a job neither stays stored. */
  async post(...files) {
    const storage = this.storage.value;
    const f = this.f.value === "" ? "auto" : Number(this.f.value);
    const options = { f, storage, verify: true };
    const sent = await Promise.allSettled(files.map((file) => this.send(file, storage)));
    const stored = sent.flatMap(({ value }) => value ?? []);
    try {
      const failed = sent.find(({ status }) => status === "rejected");
      if (failed) throw failed.reason;
      const [a, b] = stored.map(({ id }) => id);
      return await this.service.post("v1/jobs", { a, b, ...options });
    } catch (error) {
      const remove = ({ id }) => this.service.call("DELETE", `v1/matrices/${id}`);
      await Promise.allSettled(stored.map(remove));
      throw error;
    }
  }

  async send(file, storage) {
    await file.slice(0, 1).arrayBuffer(); // a browser does not read a file that has changed
    const path = `v1/matrices?storage=${storage}`;
    const answer = await this.service.call("POST", path, { headers: NPY, body: file });
    return answer.json();
  }

  step(text) {
    this.steps.append(make("li", { textContent: text }));
  }
}

/** Let an input have a file that was dropped on its zone. */
function setFile(input, file) {
  const transfer = new DataTransfer();
  transfer.items.add(file);
  input.files = transfer.files;
}
