/** The wave explorer: one product on one machine, as tiles, curves, a timeline and words. */

import { make } from "../dom.js";
import { buildProfile, findProfile, findSweep, listSweeps } from "../machines.js";
import { Refusal } from "../model/refusal.js";
import { KeyMissing } from "../service.js";
import { showNumber, showSeconds, showShare, showWhole } from "../units.js";
import { drawCurve } from "./curve_plot.js";
import { listExercises, showExercise } from "./exercise_card.js";
import { EXERCISES, findBest, planVariant } from "./exercises.js";
import { Form } from "./form.js";
import { drawLastWave, tellLastWave } from "./last_wave.js";
import { composePicture, renderPng, saveFile } from "./picture.js";
import { drawTimeline, tellTimeline } from "./timeline.js";
import { renderTrace } from "./trace.js";
import { drawWaveMap } from "./wave_map.js";
import { nameChoice, tellChoice, tellParts, tellPlan } from "./words.js";

export const EXPLORER = { id: "explorer", title: "Wave explorer", mount };

function mount(root, frame) {
  const view = new Explorer(root, frame);
  return (state) => view.show(state);
}

class Explorer {
  constructor(root, frame) {
    this.frame = frame;
    this.form = new Form(frame);
    this.exercise = make("div", { id: "exercise" });
    this.notice = make("div", { id: "notice" });
    this.words = make("div", { className: "words", id: "words", "aria-live": "polite" });
    this.slider = this.makeSlider();
    this.map = this.makePart("map", "C, tile by tile");
    this.last = this.makePart("last", "The last wave");
    this.curve = this.makePart("curve", "Seconds over F");
    this.guess = make("div", { className: "guess", id: "guess" });
    this.timeline = this.makePart("timeline", "The schedule");
    this.numbers = this.makePart("numbers", "In numbers");
    this.list = make("div", { id: "list" });
    this.curve.tools.append(this.makeRange());
    this.curve.element.append(this.guess);
    this.timeline.tools.append(this.makeButton("Save for Perfetto", () => this.saveTrace()));
    this.results = make(
      "div", { className: "results" },
      this.slider.element, this.map.element, this.last.element, this.curve.element,
      this.timeline.element, this.numbers.element,
    );
    root.append(
      make("h1", { className: "sr", textContent: "Wave explorer" }),
      make(
        "div", { className: "layout" },
        make("aside", { className: "side", "aria-label": "Product and machine" }, this.form.element,
          make("section", { className: "panel" }, make("h2", { textContent: "Exercises" }), this.list),
          this.makeSweepList()),
        make("div", { className: "content" }, this.exercise, this.notice, this.words, this.results),
      ),
    );
    new ResizeObserver(() => this.redraw()).observe(this.results);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.drawAll());
  }

  makePart(id, title) {
    const tools = make("div", { className: "tools" });
    const body = make("div", { className: "drawing" });
    const caption = make("p", { className: "caption" });
    const element = make(
      "section", { className: "panel", id, "aria-labelledby": `${id}-title` },
      make("div", { className: "head" }, make("h2", { id: `${id}-title`, textContent: title }), tools),
      body, caption,
    );
    return { id, title, element, body, caption, tools };
  }

  makeButton(text, onclick) {
    return make("button", { type: "button", className: "quiet", textContent: text, onclick });
  }

  makeSlider() {
    const input = make("input", { type: "range", id: "f", min: 0, step: 1, "aria-describedby": "f-choice" });
    const number = make("input", { type: "number", id: "f-number", min: 0, step: 1, "aria-label": "F, rows of C for the CPU" });
    const choice = make("p", { id: "f-choice", className: "caption" });
    const mark = make("span", { className: "mark", title: "the model's choice", "aria-hidden": "true" });
    input.addEventListener("input", () => this.preview(Number(input.value)));
    input.addEventListener("change", () => this.goToRows(Number(input.value)));
    number.addEventListener("change", () => number.value !== "" && this.goToRows(Number(number.value)));
    const own = this.makeButton("The model's choice", () => this.goToRows(this.chosen.f));
    const gpuButtons = [
      this.makeButton("GPU alone", () => this.goToRows(0)),
      this.makeButton("One wave less", () => this.dropWave()),
    ];
    const tools = make(
      "p", { className: "row" },
      own,
      ...gpuButtons,
      this.makeButton("Save a picture", () => this.savePicture()),
    );
    const element = make(
      "section", { className: "panel slider", "aria-labelledby": "f-label" },
      make("div", { className: "head" },
        make("label", { htmlFor: "f", id: "f-label", textContent: "F: rows of C that the CPU computes" }), number),
      make("div", { className: "track" }, input, mark),
      choice, tools,
    );
    return { element, input, number, choice, mark, own, inputs: [input, number, ...gpuButtons] };
  }

  makeRange() {
    this.range = make("select", { "aria-label": "Range of F", onchange: () => this.frame.go({ range: this.range.value }) },
      make("option", { value: "near", textContent: "near the split" }),
      make("option", { value: "all", textContent: "all F" }));
    return this.range;
  }

  makeSweepList() {
    const sweeps = listSweeps();
    const select = make("select", { id: "sweep" }, make("option", { value: "", textContent: "choose one" }),
      ...sweeps.map((sweep, index) => make("option", { value: index, textContent: nameSweep(sweep) })));
    select.addEventListener("change", () => {
      if (select.value === "") return;
      const { m, n, k, dtype, memory, sms, whole, device } = sweeps[Number(select.value)];
      select.value = "";
      this.frame.go({
        m, n, k, dtype, memory, device, sms: whole ? null : sms, kernel: "auto", tile: null,
        accuracy: null, rate: null, f: null, guess: null, exercise: null, answer: null,
      });
    });
    return make("section", { className: "panel" }, make("h2", { textContent: "Measured products" }),
      make("p", { className: "caption", textContent: "Guess first, then see what was measured." }),
      make("label", { htmlFor: "sweep", textContent: "Product" }), select);
  }

  async show(state) {
    this.state = state;
    this.form.show(state, null);
    this.list.replaceChildren(listExercises(this.frame, state.exercise));
    try {
      this.profile = await findProfile(state, this.frame.service);
      if (this.state !== state) return; // another address came meanwhile
      this.form.show(state, this.profile);
      this.compute();
      this.notice.replaceChildren();
      this.results.hidden = this.words.hidden = false;
      this.drawAll();
    } catch (error) {
      this.refuse(error);
    }
  }

  compute() {
    const { state, profile } = this;
    this.chosen = planVariant({ ...state, f: null }, profile);
    this.plan = this.chosen;
    if (state.f !== null && state.f !== this.chosen.f) this.plan = planVariant(state, profile);
    this.sweep = findSweep(state);
  }

  refuse(error) {
    if (error instanceof KeyMissing) this.askKey(error);
    else if (error instanceof Refusal) this.form.tell(error.message, error.field);
    else this.notice.replaceChildren(make("p", { className: "problem", role: "alert", textContent: String(error.message) }));
    this.results.hidden = this.words.hidden = true;
    if (!(error instanceof Refusal || error instanceof KeyMissing)) throw error;
  }

  askKey({ refused }) {
    const input = make("input", { type: "password", id: "key", autocomplete: "off", required: true });
    this.notice.replaceChildren(make(
      "form",
      {
        className: "card",
        onsubmit: (event) => {
          event.preventDefault();
          this.frame.service.setKey(input.value);
          this.show(this.state);
        },
      },
      make("h2", { textContent: "This service asks for an API key" }),
      make("p", { textContent: `${refused ? "The key was refused. " : ""}It is kept in this tab only, until the tab is closed. Data sheets and measured machines need none.` }),
      make("div", { className: "row" }, make("label", { htmlFor: "key", textContent: "API key" }), input,
        make("button", { type: "submit", textContent: "Use it" })),
    ));
    input.focus();
  }

  /** Show another F while the slider moves; the address changes when it is let go. */
  preview(f) {
    try {
      this.plan = f === this.chosen.f ? this.chosen : planVariant({ ...this.state, f }, this.profile);
      this.drawAll();
    } catch (error) {
      this.refuse(error);
    }
  }

  goToRows(f) {
    const rows = Math.min(Math.max(0, Math.round(f)), this.state.m);
    this.frame.go({ f: rows === this.chosen.f && this.state.exercise === null ? null : rows });
  }

  dropWave() {
    const { plan } = this;
    if (!plan.gpuCurve || plan.gpuRows === 0) return;
    this.goToRows(plan.problem.m - plan.gpuCurve.grid.findRowsInWaves(plan.waves - 1));
  }

  redraw() {
    const width = this.results.clientWidth;
    if (this.plan === undefined || width === this.width || this.results.hidden) return;
    this.drawAll();
  }

  drawAll() {
    if (this.plan === undefined || this.results.hidden) return;
    this.width = this.results.clientWidth;
    const { plan, chosen, state } = this;
    const queues = plan.listQueues();
    this.showExercise();
    this.words.replaceChildren(
      make("p", { className: "headline", id: "headline", textContent: tellPlan(plan) }),
      make("p", { textContent: tellParts(plan) }),
    );
    this.fillSlider();
    fillPart(this.map, (width) => drawWaveMap(plan, width), plan.gpuCurve && plan.gpuRows
      ? "Each colour is a wave: tiles that run at the same time. The last rows are hatched where the CPU computes them."
      : "Hatched: the CPU computes these rows.");
    this.last.element.hidden = plan.gpuRows === 0 || !plan.gpuCurve;
    fillPart(this.last, (width) => drawLastWave(plan, width), tellLastWave(plan));
    this.drawCurve();
    fillPart(this.timeline, (width) => drawTimeline(plan, queues, width), tellTimeline(plan, queues));
    this.numbers.body.replaceChildren(listNumbers(plan, chosen));
    this.numbers.caption.textContent = `From: ${this.profile.source}.`;
    const root = document.documentElement.dataset;
    root.f = plan.f;
    root.waves = plan.waves;
    root.seconds = plan.totalSeconds;
  }

  drawCurve() {
    const { plan, chosen, state } = this;
    const guess = state.guess ?? (state.exercise === null ? null : state.answer);
    const revealed = this.sweep !== undefined && guess !== null;
    const sweep = revealed ? this.sweep : undefined;
    this.range.value = state.range;
    fillPart(this.curve, (width) => drawCurve({
      plan, chosen, range: state.range, sweep, guess: Number(guess), width, hidesChoice: this.hidesChoice,
      onPick: (f) => this.goToRows(f),
    }), null);
    this.curve.caption.replaceChildren(...listKeys(plan, revealed, this.hidesChoice));
    this.fillGuess(revealed, Number(guess));
  }

  fillSlider() {
    const { input, number, choice, mark } = this.slider;
    const { m } = this.plan.problem;
    input.max = number.max = m;
    input.value = number.value = this.plan.f;
    for (const one of this.slider.inputs) one.disabled = this.plan.gpuCurve === null;
    input.setAttribute("aria-valuetext", `${showWhole(this.plan.f)} of ${showWhole(m)} rows`);
    choice.textContent = this.hidesChoice ? "" : tellChoice(this.plan, this.chosen);
    mark.style.setProperty("--at", this.chosen.f / m);
  }

  fillGuess(revealed, guess) {
    const { state } = this;
    const asked = state.exercise !== null && !revealed; // the exercise asks the same
    this.guess.hidden = this.sweep === undefined || asked;
    if (this.guess.hidden) return;
    if (!revealed) {
      const input = make("input", { type: "number", id: "guess-f", min: 0, max: state.m, required: true });
      this.guess.replaceChildren(make(
        "form",
        {
          className: "row",
          onsubmit: (event) => {
            event.preventDefault();
            this.frame.go({ guess: Math.min(state.m, Math.max(0, Math.round(Number(input.value)))) });
          },
        },
        make("label", { htmlFor: "guess-f", textContent: `This product was measured at ${this.sweep.curve.length} values of F. Guess the fastest F` }),
        input,
        make("button", { type: "submit", textContent: "Reveal" }),
      ));
      return;
    }
    this.guess.replaceChildren(make("p", { id: "revealed", textContent: tellGuess(this.sweep, guess, this.chosen) }));
  }

  showExercise() {
    const { state } = this;
    const exercise = EXERCISES[state.exercise - 1];
    const open = exercise !== undefined;
    const hidden = open && state.answer === null ? exercise.hides : [];
    for (const part of [this.words, this.map.element, this.curve.element, this.timeline.element, this.numbers.element]) {
      part.classList.toggle("kept-back", hidden.includes(part.id));
      part.inert = hidden.includes(part.id);
    }
    this.last.element.classList.toggle("kept-back", hidden.includes("map"));
    this.hidesChoice = hidden.includes("choice");
    this.slider.element.classList.toggle("hides-choice", this.hidesChoice);
    this.slider.own.hidden = this.hidesChoice;
    if (!open) {
      this.exercise.replaceChildren();
      return;
    }
    const key = `${state.exercise} ${state.answer}`;
    if (this.exercise.dataset.key === key && this.exercise.firstChild) return;
    this.exercise.dataset.key = key;
    const context = this.makeContext();
    const verdict = state.answer === null ? null : exercise.check(state.answer, context);
    this.exercise.replaceChildren(showExercise(this.frame, state, exercise.ask(context), verdict));
  }

  /** What an exercise may look at. */
  makeContext() {
    const { state, plan, chosen, sweep } = this;
    const planOther = (changes) => {
      const other = { ...state, ...changes };
      return planVariant(other, state.device === "here" ? this.profile : buildProfile(other));
    };
    return { plan, chosen, planOther, sweep };
  }

  async savePicture() {
    const parts = [this.map, this.last, this.curve, this.timeline]
      .filter(({ element }) => !element.hidden)
      .map(({ title, body }) => ({ heading: title, figure: body.firstElementChild }));
    const drawing = composePicture(tellPlan(this.plan), nameProduct(this.plan, this.profile), parts);
    const file = await renderPng(drawing);
    saveFile(`${nameFile(this.plan)}.png`, file);
  }

  saveTrace() {
    const { plan, profile, sweep } = this;
    const text = renderTrace(plan, plan.listQueues(), sweep?.measured, profile.device);
    saveFile(`${nameFile(plan)}.trace.json`, new Blob([text], { type: "application/json" }));
  }
}

function fillPart(part, drawPart, caption) {
  const width = Math.floor(part.body.clientWidth) || 320;
  const figure = drawPart(width);
  part.body.replaceChildren(...(figure ? [figure] : []));
  if (caption !== null) part.caption.textContent = caption;
}

function nameSweep({ m, n, k, dtype, memory, sms, whole, device }) {
  const size = m === n && n === k ? `${m}³` : `${m} × ${n} × ${k}`;
  return `${size} ${dtype}, ${memory}${whole ? "" : `, ${sms} multiprocessors`} (${device.replace("host-", "").toUpperCase()})`;
}

function nameProduct({ problem }, profile) {
  const { m, n, k, dtype, memory } = problem;
  return `${showWhole(m)} × ${showWhole(n)} × ${showWhole(k)} ${dtype}, ${memory} memory, ${profile.device}, ${profile.cpu.threads} CPU threads`;
}

function nameFile({ problem, f }) {
  return `wavetrim-${problem.m}x${problem.n}x${problem.k}-${problem.dtype}-f${f}`;
}

function tellGuess({ curve }, guess, chosen) {
  const [best, seconds] = findBest(curve);
  const near = (f) => curve.reduce((one, point) => (Math.abs(point[0] - f) < Math.abs(one[0] - f) ? point : one));
  const tell = ([f, time]) =>
    f === best ? "the fastest" : `F = ${showWhole(f)} took ${showSeconds(time)}, ${showNumber(100 * (time / seconds - 1))}% more`;
  return `Measured: F = ${showWhole(best)} was the fastest, ${showSeconds(seconds)}. Nearest to your guess of ${showWhole(guess)}: ${tell(near(guess))}. Nearest to the model's ${showWhole(chosen.f)}: ${tell(near(chosen.f))}.`;
}

function listKeys(plan, revealed, hidesChoice) {
  const keys = plan.gpuCurve ? [["gpu", "GPU"], ["cpu", "CPU"], ["total", "the longer of both"]] : [["cpu", "CPU"]];
  if (revealed) keys.push(["measured", "measured"]);
  const shown = keys.map(([name, text]) => make("span", { className: `key ${name}`, textContent: text }));
  if (hidesChoice) return shown;
  return [...shown, make("span", { className: "key mark-key", textContent: "▲ the model's choice" })];
}

function listNumbers(plan, chosen) {
  const { predicted, problem } = plan;
  const rows = [
    ["F", `${showWhole(plan.f)} of ${showWhole(problem.m)} rows`],
    ["The model's choice", nameChoice(chosen)],
    ["Kernel", plan.spec ? `${plan.spec.name} ${plan.spec.tile.replaceAll("x", " × ")}, ${plan.spec.accuracy}` : "none"],
    ["GPU part", showSeconds(predicted.gpuSeconds)],
    ["CPU part", showSeconds(predicted.cpuSeconds)],
    ["Both", showSeconds(plan.totalSeconds)],
    ["CPU alone", showSeconds(plan.cpuOnlySeconds)],
  ];
  if (plan.gpuCurve) {
    const { grid, waveSeconds } = plan.gpuCurve;
    rows.push(
      ["GPU alone", showSeconds(plan.gpuOnlySeconds)],
      ["Waves", `${showWhole(plan.waves)}; ${showWhole(plan.wavesGpuOnly)} without the CPU`],
      ["Last wave", plan.gpuRows ? `${showShare(plan.tailUtilization)} full${plan.tailSplit ? ", split along K" : ""}` : "none"],
      ["Slots", showWhole(grid.slots)],
      ["One wave", showSeconds(waveSeconds)],
      ["CPU threads in a split", `${plan.share.threads} of ${plan.profile.cpu.threads}`],
    );
  }
  return make("dl", { className: "numbers" }, ...rows.map(([name, value]) =>
    make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: value }))));
}
