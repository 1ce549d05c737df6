/** The form of the explorer: product, machine and kernel. Each change makes a new address. */

import { CATALOG } from "../catalog.js";
import { fillSelect, makeField, makeSelect } from "../controls.js";
import { make } from "../dom.js";
import { listMachines } from "../machines.js";
import { findLimits, readValue, unset } from "../state.js";
import { findField } from "./query.js";

const MEMORY_LABELS = { pageable: "pageable (any array)", pinned: "pinned (page-locked)" };

/** Fields that take the width of the form. */
const WIDE = ["memory", "device", "kernel", "tile", "accuracy"];

/** Fields of a GPU that is typed in. */
const TYPED = ["smcount", "clock", "memclock", "capability", "memgib", "link"];

/** Fields that are folded away while none of them is filled in. */
const FOLDED = ["gpus", "rate", "linkrate", "kernel", "tile", "accuracy", "sms"];

/** The form, which `show` fills in. */
export class Form {
  constructor(frame) {
    this.frame = frame;
    this.fields = new Map();
    this.problem = make("p", { className: "problem", role: "alert", hidden: true });
    this.folded = make(
      "details",
      {},
      make("summary", { textContent: "Rates and kernel" }),
      make("fieldset", { "aria-label": "Rates and kernel" }, ...this.listFoldedFields()),
    );
    this.element = make(
      "form",
      { className: "form", onsubmit: (event) => event.preventDefault() },
      makeGroup("Product", this.listProductFields()),
      makeGroup("Machine", this.listMachineFields()),
      this.folded,
      this.problem,
    );
  }

  listProductFields() {
    return [
      this.number("m", "M", "rows of A and C"),
      this.number("n", "N", "columns of B and C"),
      this.number("k", "K", "columns of A, rows of B"),
      this.choice("dtype", "Type", Object.keys(CATALOG.itemBytes)),
      this.choice(
        "memory",
        "Memory",
        CATALOG.memories.map((memory) => [memory, MEMORY_LABELS[memory]]),
      ),
    ];
  }

  listMachineFields() {
    return [
      this.choice("device", "Device", []),
      this.number("smcount", "Multiprocessors", "of the GPU"),
      this.number("clock", "Clock, MHz", "of the multiprocessors"),
      this.number("memclock", "Memory clock, MHz", "of a bus of 256 bits"),
      this.choice("capability", "Compute capability", CATALOG.capabilities),
      this.number("memgib", "Memory, GiB", "of the GPU"),
      this.number("link", "Link standard, GB/s", "one way, on paper"),
      this.number("threads", "CPU threads", "default: the machine's"),
    ];
  }

  listFoldedFields() {
    const accuracies = [["", "like NumPy and cuBLAS"], ...CATALOG.accuracies];
    return [
      this.number("gpus", "GPUs", "1 to 8; default: the machine's"),
      this.number("rate", "CPU rate, GFLOP/s", "in this type; default: the machine's"),
      this.number("linkrate", "Link rate, GB/s", "each way; default: the machine's"),
      this.choice("kernel", "Kernel", []),
      this.choice("tile", "Tile", []),
      this.choice("accuracy", "Accuracy", accuracies),
      this.number("sms", "Multiprocessors, at most", "default: all"),
    ];
  }

  number(name, label, hint) {
    const { least, most } = findLimits(name);
    const limits = { min: least, max: most, step: "any", inputMode: "decimal" };
    return this.field(name, label, hint, make("input", { type: "number", id: name, ...limits }));
  }

  choice(name, label, options) {
    return this.field(name, label, "", makeSelect(name, options));
  }

  field(name, label, hint, input) {
    input.addEventListener("change", () => this.change(name, input));
    const row = makeField(label, input, { hint, isWide: WIDE.includes(name) });
    this.fields.set(name, { row, input });
    return row;
  }

  /** Change the address by what was typed in or chosen, or say why that is not accepted. */
  change(name, input) {
    const value = readValue(name, input.value);
    const isNumber = !input.validity.badInput;
    const isRefused = value === null && (input.value !== "" || !isNumber);
    input.setAttribute("aria-invalid", String(isRefused));
    if (isRefused) {
      const { least, most, fraction } = findLimits(name);
      const kind = fraction ? "a number" : "a whole number";
      const given = isNumber ? input.value : "not a number";
      this.tell(`${name} is ${given}; it must be ${kind} from ${least} to ${most}.`, name);
      return;
    }
    const shown = unset("f", "job", "guess", "exercise", "answer");
    this.frame.go({ ...shown, ...this.unsetOthers(name), [name]: value });
  }

  /** Make the fields unset that a change of another field makes invalid. */
  unsetOthers(name) {
    if (name === "kernel") return unset("tile");
    if (name === "dtype") return unset("kernel", "tile", "accuracy", "rate");
    return name === "device" ? unset("threads", "gpus", "sms", "rate", "linkrate") : {};
  }

  /** Show why there is no plan, and mark the field; nothing if `message` is null. */
  tell(message, name = null) {
    this.problem.hidden = message === null;
    this.problem.textContent = message ?? "";
    const field = name && findField(name);
    if (FOLDED.includes(field)) this.folded.open = true;
    for (const [one, { input }] of this.fields)
      input.setAttribute("aria-invalid", String(one === field));
  }

  /** Fill in a state; `plan`: what is chosen for it, null before it is known. */
  show(state, plan) {
    this.fillMachines(state);
    const tilesByName = CATALOG.kernels[state.dtype] ?? {};
    this.fill("kernel", [["auto", "auto: the fastest"], ...Object.keys(tilesByName)]);
    const tiles = tilesByName[state.kernel] ?? [];
    this.fill("tile", [
      ["", state.kernel === "auto" ? "auto" : "the fastest"],
      ...tiles.map((tile) => [tile, tile.replaceAll("x", " × ")]),
    ]);
    for (const [name, { input }] of this.fields) input.value = state[name] ?? "";
    const isFilled = (name) => !["", "auto"].includes(this.fields.get(name).input.value);
    this.folded.open ||= FOLDED.some(isFilled);
    for (const name of TYPED) this.fields.get(name).row.hidden = state.device !== "typed";
    if (plan) this.showDefaults(plan);
    this.tell(null);
  }

  /** Show the machine's own numbers in the fields that are empty. */
  showDefaults({ profile: { gpus, cpu, link, sm_count } }) {
    for (const [name, value] of Object.entries({
      gpus: gpus.length || null,
      threads: cpu.threads,
      rate: cpu.gflops,
      linkrate: link?.in_gbytes_per_second ?? null,
      sms: sm_count,
    })) {
      const { input } = this.fields.get(name);
      input.placeholder = value === null ? "none" : String(Number(value.toPrecision(4)));
    }
    this.fields.get("linkrate").input.disabled = !link;
  }

  fillMachines(state) {
    const { input } = this.fields.get("device");
    const { service, own } = this.frame;
    const listed = listMachines(service, own?.devices ?? [], state.device);
    const groups = listed.map(([label, machines]) => {
      const group = make("optgroup", { label });
      fillSelect(group, machines);
      return group;
    });
    input.replaceChildren(...groups);
    input.value = state.device;
  }

  fill(name, options) {
    fillSelect(this.fields.get(name).input, options);
  }
}

function makeGroup(legend, fields) {
  return make("fieldset", {}, make("legend", { textContent: legend }), ...fields);
}
