/** The ladder: kernels with their source, roofline and waves; and the probes of the GPU. */

import { drawChart } from "../chart.js";
import { fillSelect, makeLabel, makeSelect } from "../controls.js";
import { make } from "../dom.js";
import { Notice } from "../notice.js";
import { showNumber, showWhole } from "../units.js";
import { showProbe } from "./probe_panel.js";
import { PROBED } from "./probes.js";
import { drawRoofline } from "./roofline.js";
import { findSize, listRungs } from "./rung_list.js";
import { LADDERS } from "./rungs.js";
import { showSource } from "./source.js";

const SOURCES = "page/cuda/";

export const VIEW = { mount };

function mount(root, frame) {
  const ladder = new Ladder(root, frame);
  return { show: (state) => ladder.show(state), close: () => ladder.close() };
}

class Ladder {
  constructor(root, frame) {
    this.frame = frame;
    this.ladder = LADDERS[0];
    this.notice = new Notice(frame.service, () => this.show(this.state));
    const types = [...new Set(this.ladder.rungs.map(({ dtype }) => dtype))];
    this.dtype = makeSelect("ladder-type", listOptions(types), () => this.chooseType());
    this.rungs = make("div");
    this.size = make("p", { className: "caption" });
    this.title = make("h2", { id: "rung-title" });
    this.text = make("p", { className: "lesson" });
    this.roofline = make("div", { className: "drawing" });
    this.stairs = make("div", { className: "drawing" });
    this.file = makeSelect("source-file", [], () => this.read(this.file.value));
    this.source = make("div");
    this.probes = makeSelect(
      "probe",
      listOptions(PROBED[0].probes.map(({ name }) => name)),
      () => frame.go({ probe: this.probes.value }),
    );
    this.probe = make("div", { id: "probe-shown" });
    this.layOut(root);
    this.sizes = new ResizeObserver(() => this.width === this.probe.clientWidth || this.draw());
    this.sizes.observe(this.probe);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.scheme.onchange = () => this.draw();
  }

  layOut(root) {
    const { gpu } = this.ladder;
    const rungs = makeSection(
      "ladder-title",
      makeHead(`The kernels on ${gpu}`, "ladder-title", "Type", this.dtype),
      this.rungs,
      this.size,
    );
    const rung = makeSection(
      "rung-title",
      this.title,
      this.text,
      make("h3", { textContent: "On the roofline" }),
      this.roofline,
      make("h3", { textContent: "Its waves" }),
      this.stairs,
    );
    const source = makeSection(
      "source-title",
      makeHead("Source", "source-title", "File", this.file),
      this.source,
    );
    const probes = makeSection(
      "probes-title",
      makeHead(`Probes of ${PROBED[0].gpu}`, "probes-title", "Probe", this.probes),
      this.probe,
    );
    const pair = make("div", { className: "pair", id: "rung" }, rung, source);
    root.append(
      make("h1", { className: "sr", textContent: "Ladder" }),
      make("div", { className: "page-column" }, this.notice.element, rungs, pair, probes),
    );
  }

  close() {
    this.sizes.disconnect();
    this.scheme.onchange = null;
  }

  async show(state) {
    this.state = state;
    const { rungs } = this.ladder;
    const [name, dtype] = (state.rung ?? "").split(".");
    const first = rungs.find((one) => one.name === "bulk") ?? rungs[0];
    this.rung = rungs.find((one) => one.name === name && one.dtype === dtype) ?? first;
    const { probes } = PROBED[0];
    this.shownProbe = probes.find((one) => one.name === state.probe) ?? probes[0];
    this.dtype.value = this.rung.dtype;
    this.probes.value = this.shownProbe.name;
    this.draw();
    await this.listFiles();
  }

  /** Show the same kernel in another element type, or the first of that type. */
  chooseType() {
    const same = this.ladder.rungs.filter(({ dtype }) => dtype === this.dtype.value);
    this.choose(same.find(({ name }) => name === this.rung.name) ?? same[0]);
  }

  choose({ name, dtype }) {
    this.frame.go({ rung: `${name}.${dtype}` });
  }

  draw() {
    const { ladder, rung } = this;
    this.width = this.probe.clientWidth;
    const rungs = ladder.rungs.filter(({ dtype }) => dtype === rung.dtype);
    const focused = this.rungs.contains(document.activeElement);
    this.rungs.replaceChildren(listRungs(rungs, rung, (one) => this.choose(one)));
    if (focused) this.rungs.querySelector("[aria-pressed=true]").focus();
    const size = findSize(rungs);
    this.size.textContent = `M = N = K = ${showWhole(size)}, the fastest tile of each. Measured on ${ladder.caption}.`;
    this.title.textContent = `${rung.name}, ${rung.dtype}`;
    this.text.textContent = rung.text;
    const { figure, legend } = drawRoofline(ladder, rung, this.roofline.clientWidth || 320);
    this.roofline.replaceChildren(figure, legend);
    this.stairs.replaceChildren(...drawStairs(rung, this.stairs.clientWidth || 320));
    this.probe.replaceChildren(...showProbe(this.shownProbe, PROBED[0].gpu, this.width || 320));
  }

  /** List the rung's source files, and show the first. */
  async listFiles() {
    const { sources, name } = this.rung;
    fillSelect(this.file, listOptions(sources));
    this.file.disabled = sources.length === 0;
    if (sources.length > 0) return this.read(sources[0]);
    const none = `${name} is NVIDIA's library; it has no source here.`;
    this.shownFile = null;
    return this.source.replaceChildren(make("p", { className: "caption", textContent: none }));
  }

  async read(file) {
    if (file === this.shownFile) return;
    try {
      const answer = await this.frame.service.call("GET", SOURCES + file);
      this.source.replaceChildren(showSource(await answer.text(), `${file}, source`));
      this.shownFile = file;
    } catch (error) {
      this.notice.tell(error);
    }
  }
}

/** The measured times of a kernel, and the staircase that the model plans with. */
function drawStairs({ name, stairs }, width) {
  if (!stairs) return [make("p", { className: "caption", textContent: "Not measured." })];
  const { tile, k, slots, points } = stairs;
  const measured = points.map(([tiles, time]) => [tiles, time]);
  const modelled = points.map(([tiles, , time]) => [tiles, time]);
  const { figure, legend } = drawChart({
    width,
    height: Math.round(Math.min(300, Math.max(220, width * 0.45))),
    label: `${name}: microseconds over tiles, ${slots} tiles a wave`,
    x: { name: `tiles of ${tile.replaceAll("x", " × ")}, ${slots} a wave` },
    y: { name: `µs, K = ${showNumber(k)}` },
    series: [
      { name: "measured", kind: "points", points: measured },
      { name: "the model's staircase", kind: "steps", points: modelled },
    ],
  });
  return [figure, legend];
}

function makeSection(titleId, ...children) {
  return make("section", { className: "panel", "aria-labelledby": titleId }, ...children);
}

/** A heading with a drop-down list next to it. */
function makeHead(title, id, label, select) {
  return make(
    "div",
    { className: "head" },
    make("h2", { id, textContent: title }),
    make("div", { className: "tools" }, makeLabel(select, label), select),
  );
}

function listOptions(names) {
  return names.map((name) => [name, name]);
}
