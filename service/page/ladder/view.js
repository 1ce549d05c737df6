/** The ladder: kernels with their source, roofline and waves; and the probes of the GPU. */

import { drawChart } from "../chart.js";
import { fillSelect, makeLabel, makeSelect } from "../controls.js";
import { make } from "../dom.js";
import { Notice } from "../notice.js";
import { Section } from "../section.js";
import { showNumber, showWhole } from "../units.js";
import { showProbe } from "./probe_panel.js";
import { PROBED } from "./probes.js";
import { drawRoofline } from "./roofline.js";
import { findSize, listRungs } from "./rung_list.js";
import { LADDERS } from "./rungs.js";
import { showSource } from "./source.js";

const SOURCES = "page/cuda/";

export class View {
  constructor(root, frame) {
    this.frame = frame;
    this.ladder = LADDERS[0];
    this.notice = new Notice(frame.service, () => this.show(this.state));
    const types = [...new Set(this.ladder.rungs.map(({ dtype }) => dtype))];
    const probes = PROBED[0].probes.map(({ name }) => name);
    this.dtype = makeSelect("ladder-type", types, () => this.chooseType());
    this.file = makeSelect("source-file", [], () => this.read(this.file.value));
    this.probes = makeSelect("probe", probes, () => frame.go({ probe: this.probes.value }));
    const named = (text, select) => [makeLabel(select, text), select];
    this.rungs = new Section("rungs", `The kernels on ${this.ladder.gpu}`, ...named("Type", this.dtype));
    this.shown = new Section("rung", "");
    this.source = new Section("source", "Source", ...named("File", this.file));
    this.probe = new Section("probe-shown", `Probes of ${PROBED[0].gpu}`, ...named("Probe", this.probes));
    const pair = make("div", { className: "pair" }, this.shown.element, this.source.element);
    const sections = [this.rungs.element, pair, this.probe.element];
    root.append(
      make("h1", { className: "sr", textContent: "Ladder" }),
      make("div", { className: "page-column" }, this.notice.element, ...sections),
    );
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
    const rungs = ladder.rungs.filter(({ dtype }) => dtype === rung.dtype);
    const size = `M = N = K = ${showWhole(findSize(rungs))}, the fastest tile of each`;
    const isFocused = this.rungs.body.contains(document.activeElement);
    this.rungs.show(
      () => [listRungs(rungs, rung, (one) => this.choose(one))],
      `${size}. Measured on ${ladder.caption}.`,
    );
    if (isFocused) this.rungs.body.querySelector("[aria-pressed=true]").focus();
    this.shown.heading.textContent = `${rung.name}, ${rung.dtype}`;
    this.shown.show((width) => {
      const { figure, legend } = drawRoofline(ladder, rung, width);
      return [
        make("p", { className: "lesson", textContent: rung.text }),
        make("h3", { textContent: "On the roofline" }),
        figure,
        legend,
        make("h3", { textContent: "Its waves" }),
        ...drawStairs(rung, width),
      ];
    });
    this.probe.show((width) => showProbe(this.shownProbe, PROBED[0].gpu, width));
  }

  /** List the rung's source files, and show the first. */
  async listFiles() {
    const { sources, name } = this.rung;
    fillSelect(this.file, sources);
    this.file.disabled = sources.length === 0;
    if (sources.length > 0) return this.read(sources[0]);
    const none = `${name} is NVIDIA's library; it has no source here.`;
    this.shownFile = null;
    return this.source.show(() => [], none);
  }

  async read(file) {
    if (file === this.shownFile) return;
    try {
      const answer = await this.frame.service.call("GET", SOURCES + file);
      const text = await answer.text();
      this.source.show(() => [showSource(text, `${file}, source`)]);
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
      { name: "the model's staircase", kind: "steps before", points: modelled },
    ],
  });
  return [figure, legend];
}
