/** What is asked: the product, the kernel and the machine. Each change makes a new address. */

import { make } from "../dom.js";
import { listMachines, needsThreads } from "../machines.js";
import { listKernels } from "../model/kernels/catalog.js";
import { TABLES } from "../model/tables.js";
import { findLimits, readText } from "../state.js";

const { ITEM_BYTES, MEMORIES, ACCURACIES } = TABLES.constants;
const WIDE = ["memory", "device", "kernel", "tile", "accuracy"];
const CAPABILITIES = [...new Set(TABLES.presets.map((one) => one.compute_capability.join(".")))];

/** The form; `show(state, profile)` fills it in. */
export class Form {
  constructor(frame) {
    this.frame = frame;
    this.fields = new Map();
    this.problem = make("p", { className: "problem", role: "alert", hidden: true });
    const options = (values) => values.map((value) => [value, value]);
    this.element = make(
      "form",
      { className: "form", onsubmit: (event) => event.preventDefault() },
      this.group("Product", [
        this.number("m", "M", "rows of A and C"),
        this.number("n", "N", "columns of B and C"),
        this.number("k", "K", "columns of A, rows of B"),
        this.choice("dtype", "Type", options(Object.keys(ITEM_BYTES))),
        this.choice(
          "memory",
          "Memory",
          [
            ["pageable", "pageable (any array)"],
            ["pinned", "pinned (page-locked)"],
          ].filter(([value]) => MEMORIES.includes(value)),
        ),
      ]),
      this.group("Machine", [
        this.choice("device", "Device", []),
        this.number("gpus", "GPUs", "1 to 8; empty: the machine's"),
        this.number("smcount", "Multiprocessors", "of the GPU"),
        this.number("clock", "Clock, MHz", "of the multiprocessors"),
        this.number("memclock", "Memory clock, MHz", "of a bus of 256 bits"),
        this.choice("capability", "Compute capability", options(CAPABILITIES.sort())),
        this.number("memgib", "Memory, GiB", "of the GPU"),
        this.number("link", "Link standard, GB/s", "one way, on paper"),
        this.number("threads", "CPU threads", "empty: the machine's"),
        this.number("rate", "CPU rate, GFLOP/s", "in this type; empty: the machine's"),
        this.number("linkrate", "Link rate, GB/s", "each way; empty: the machine's"),
      ]),
      this.group("Kernel", [
        this.choice("kernel", "Kernel", []),
        this.choice("tile", "Tile", []),
        this.choice("accuracy", "Accuracy", [["", "as NumPy and cuBLAS"], ...options(ACCURACIES)]),
        this.number("sms", "Held to multiprocessors", "empty: all"),
      ]),
      this.problem,
    );
  }

  group(legend, fields) {
    return make("fieldset", {}, make("legend", { textContent: legend }), ...fields);
  }

  number(name, label, hint) {
    const { least, most } = findLimits(name);
    const input = make("input", {
      type: "number",
      id: name,
      min: least,
      max: most,
      step: "any",
      inputMode: "decimal",
    });
    return this.field(name, label, hint, input);
  }

  choice(name, label, options) {
    const select = make("select", { id: name });
    fill(select, options);
    return this.field(name, label, "", select);
  }

  field(name, label, hint, input) {
    input.addEventListener("change", () => this.change(name, input));
    const described = hint ? make("small", { id: `${name}-hint`, textContent: hint }) : null;
    if (described) input.setAttribute("aria-describedby", described.id);
    const row = make(
      "div",
      { className: WIDE.includes(name) ? "field wide" : "field" },
      make("label", { htmlFor: name, textContent: label }),
      input,
      described,
    );
    this.fields.set(name, { row, input });
    return row;
  }

  change(name, input) {
    const value = readText(name, input.value);
    const refused = input.value !== "" && value === null;
    input.setAttribute("aria-invalid", String(refused));
    if (refused) {
      const { least, most, fraction } = findLimits(name);
      const kind = fraction ? "a number" : "a whole number";
      this.tell(`${name} is ${input.value}; it must be ${kind} from ${least} to ${most}.`, name);
      return;
    }
    const changes = { [name]: value ?? readText(name, "") ?? this.frame.state[name] };
    if (input.value === "") changes[name] = null;
    if (name === "kernel") changes.tile = null;
    if (name === "device") Object.assign(changes, { gpus: null, sms: null, rate: null, linkrate: null });
    if (name === "device" && !(needsThreads(changes) && needsThreads(this.frame.state)))
      changes.threads = null;
    if (name === "dtype")
      Object.assign(changes, { kernel: "auto", tile: null, accuracy: null, rate: null });
    this.frame.go({ f: null, job: null, guess: null, exercise: null, answer: null, ...changes });
  }

  /** Say what cannot be met, and at which field; nothing where all can. */
  tell(message, name = null) {
    this.problem.hidden = message === null;
    this.problem.textContent = message ?? "";
    const field = name === "link_gbytes_per_second" ? "linkrate" : name;
    for (const [one, { input }] of this.fields)
      input.setAttribute("aria-invalid", String(one === field));
  }

  /** Fill the form in. */
  show(state, profile) {
    this.fillMachines(state);
    const names = [...new Set(listKernels(state.dtype).map((spec) => spec.name))];
    this.fill("kernel", [["auto", "auto: the fastest"], ...names.map((name) => [name, name])]);
    const tiles = listKernels(state.dtype).filter((spec) => spec.name === state.kernel);
    this.fill("tile", [
      ["", state.kernel === "auto" ? "auto" : "the fastest"],
      ...tiles.map(({ tile }) => [tile, tile.replaceAll("x", " × ")]),
    ]);
    for (const [name, { input }] of this.fields) input.value = state[name] ?? "";
    for (const name of ["smcount", "clock", "memclock", "capability", "memgib", "link"]) {
      this.fields.get(name).row.hidden = state.device !== "typed";
    }
    if (profile) this.showOwn(state, profile);
    this.tell(null);
  }

  /** What the machine has where nothing is filled in. */
  showOwn({ dtype, memory }, profile) {
    const link = profile.findLink(memory);
    for (const [name, value] of Object.entries({
      gpus: profile.gpus.length || undefined,
      threads: profile.cpu.threads,
      rate: profile.findCpuRate(dtype).gflops,
      linkrate: link?.in_gbytes_per_second,
      sms: profile.gpu?.sm_count,
    })) {
      const { input } = this.fields.get(name);
      input.placeholder = value === undefined ? "none" : String(Number(value.toPrecision(4)));
    }
    this.fields.get("linkrate").input.disabled = !link;
  }

  fillMachines(state) {
    const { input } = this.fields.get("device");
    const groups = listMachines(this.frame.service, this.frame.gpus ?? []).map(
      ([label, machines]) => {
        const group = make("optgroup", { label });
        fill(group, machines);
        return group;
      },
    );
    input.replaceChildren(...groups);
    input.value = state.device;
  }

  fill(name, options) {
    fill(this.fields.get(name).input, options);
  }
}

function fill(list, options) {
  list.replaceChildren(
    ...options.map(([value, label]) => make("option", { value, textContent: label })),
  );
}
