/** The wave explorer: one product on one machine, as tiles, curves, a timeline and words. */

import { make } from "../dom.js";
import {
  buildProfile,
  findFirst,
  findGpus,
  findProfile,
  findSweep,
  isServed,
  needsThreads,
} from "../machines.js";
import { Refusal } from "../model/refusal.js";
import { Notice } from "../notice.js";
import { drawCurve, listKeys } from "./curve_plot.js";
import { listExercises, showExercise } from "./exercise_card.js";
import { EXERCISES, planVariant } from "./exercises.js";
import { Form } from "./form.js";
import { askGuess, makeSweepList, tellGuess } from "./guess.js";
import { drawLastWave, tellLastWave } from "./last_wave.js";
import { listDevices, listNumbers } from "./numbers.js";
import { Part } from "./part.js";
import { savePicture, saveTrace } from "./saving.js";
import { makeButton, RowSlider } from "./slider.js";
import { listSources } from "./sources.js";
import { drawTimeline, tellTimeline } from "./timeline.js";
import { drawWaveMap, tellWaveMap } from "./wave_map.js";
import { tellJob, tellParts, tellPlan } from "./words.js";

/** Pixels between the end of a panel's content and its edge. */
const PADDING = 20;

export const EXPLORER = { mount, complete };

function mount(root, frame) {
  const explorer = new Explorer(root, frame);
  return { show: (state) => explorer.show(state), close: () => explorer.close() };
}

/** Fill in the machine where an address names none; false where it did not. */
async function complete(state, frame) {
  frame.gpus ??= await findGpus(frame.service);
  const isNamed = state.device !== null;
  if (isNamed && (state.threads !== null || !needsThreads(state))) return true;
  const first = await findFirst(frame.service);
  state.device ??= first.device;
  if (needsThreads(state)) state.threads ??= first.threads;
  return false;
}

class Explorer {
  constructor(root, frame) {
    this.frame = frame;
    this.form = new Form(frame);
    this.list = make("div");
    this.exercise = make("div", { id: "exercise" });
    this.notice = new Notice(frame.service, () => this.show(this.state));
    this.words = make("div", { className: "words", id: "words", "aria-live": "polite" });
    this.guess = make("div", { className: "guess", id: "guess" });
    this.slider = new RowSlider({
      preview: (f) => this.preview(f),
      pick: (f) => this.pick(f),
      savePicture: () => this.savePicture(),
    });
    this.range = make(
      "select",
      { "aria-label": "Range of F", onchange: () => frame.go({ range: this.range.value }) },
      make("option", { value: "near", textContent: "near the split" }),
      make("option", { value: "all", textContent: "all F" }),
    );
    this.map = new Part("map", "C, tile by tile");
    this.last = new Part("last", "The last wave");
    this.curve = new Part("curve", "Seconds over F", this.range);
    const save = makeButton("Save for Perfetto", () => this.saveTrace());
    this.timeline = new Part("timeline", "The schedule", save);
    this.numbers = new Part("numbers", "In numbers");
    this.curve.element.append(this.guess);
    this.drawn = [this.map, this.last, this.curve, this.timeline];
    this.layOut(root);
    this.sizes = new ResizeObserver(() => this.redraw());
    this.sizes.observe(this.results);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.scheme.onchange = () => this.drawAll();
  }

  close() {
    this.sizes.disconnect();
    this.scheme.onchange = null;
  }

  layOut(root) {
    const parts = [...this.drawn, this.numbers].map(({ element }) => element);
    this.results = make("div", { className: "results" }, this.slider.element, ...parts);
    const exercises = make("h2", { textContent: "Exercises" });
    const side = make(
      "aside",
      { className: "side", "aria-label": "Product and machine" },
      this.form.element,
      make("section", { className: "panel" }, exercises, this.list),
      makeSweepList(this.frame),
    );
    const content = make(
      "div",
      { className: "content" },
      this.exercise,
      this.notice.element,
      this.words,
      this.results,
    );
    root.append(
      make("h1", { className: "sr", textContent: "Wave explorer" }),
      make("div", { className: "layout" }, side, content),
    );
  }

  async show(state) {
    this.state = state;
    this.form.show(state, null);
    this.list.replaceChildren(listExercises(this.frame, state.exercise));
    try {
      const profile = await findProfile(state, this.frame.service);
      const job = await findJob(state, this.frame.service);
      if (this.state !== state) return; // another address came meanwhile
      Object.assign(this, { profile, job });
      this.form.show(state, profile);
      this.compute();
      this.notice.clear();
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

  /** Say why there is no plan to show. */
  refuse(error) {
    this.results.hidden = this.words.hidden = true;
    if (error instanceof Refusal) {
      this.form.tell(error.message, error.field);
    } else {
      this.notice.tell(error);
    }
  }

  /** Show another F while the slider moves; the address changes when it is let go. */
  preview(f) {
    const { state, chosen, profile } = this;
    this.plan = f === chosen.f ? chosen : planVariant({ ...state, f }, profile);
    this.drawAll();
  }

  pick(f) {
    const rows = Math.min(Math.max(0, Math.round(f)), this.state.m);
    this.frame.go({ f: rows === this.chosen.f && this.state.exercise === null ? null : rows });
  }

  redraw() {
    if (this.results.clientWidth !== this.width) this.drawAll();
  }

  drawAll() {
    if (this.plan === undefined || this.results.hidden) return;
    this.width = this.results.clientWidth;
    const { plan, chosen } = this;
    const queues = plan.listQueues();
    this.showExercise();
    this.words.replaceChildren(
      make("p", { className: "headline", id: "headline", textContent: tellPlan(plan) }),
      make("p", { textContent: tellParts(plan) }),
      ...(this.job ? [make("p", { id: "told-job", textContent: tellJob(this.job) })] : []),
    );
    this.slider.show(plan, chosen, this.hidesChoice);
    this.map.show((width) => drawWaveMap(plan, width), tellWaveMap(plan));
    this.last.element.hidden = plan.gpuRows === 0 || !plan.gpuCurve;
    this.last.show((width) => drawLastWave(plan, width), tellLastWave(plan));
    this.showCurve();
    this.timeline.show((width) => drawTimeline(plan, queues, width), tellTimeline(plan, queues));
    this.numbers.show(() => {
      const tables = [listDevices(plan), listSources(plan)];
      return make("div", {}, listNumbers(plan, chosen), ...tables);
    }, null);
    // What is shown, for tests and for who wants to read it off.
    const shown = { f: plan.f, waves: plan.waves, seconds: plan.totalSeconds };
    Object.assign(document.documentElement.dataset, shown);
  }

  /** The curve, with what was measured once there is a guess. */
  showCurve() {
    const { plan, chosen, state, hidesChoice } = this;
    const guess = state.guess ?? (state.exercise === null ? null : state.answer);
    const sweep = guess === null ? undefined : this.sweep;
    const asked = { plan, chosen, range: state.range, sweep, guess: Number(guess), hidesChoice };
    this.range.value = state.range;
    this.curve.caption.replaceChildren(...listKeys(plan, sweep !== undefined, hidesChoice));
    this.guess.hidden = this.sweep === undefined || (guess === null && state.exercise !== null);
    if (!this.guess.hidden)
      this.guess.replaceChildren(
        sweep === undefined
          ? askGuess(this.sweep, (rows) => this.frame.go({ guess: rows }))
          : tellGuess(sweep, Number(guess), chosen),
      );
    const room = this.findRoom();
    const onPick = (f) => this.pick(f);
    this.curve.show((width) => drawCurve({ ...asked, width, room, onPick }), null);
  }

  /** How high the curve may be to end with what is beside it; 0 where nothing is. */
  findRoom() {
    const { map, last, curve, guess } = this;
    const find = ({ element }) => element.getBoundingClientRect();
    if (find(map).top !== find(curve).top || map.element.matches(".kept-back")) return 0;
    const measure = (part) => part.caption.getBoundingClientRect().bottom - find(part).top;
    const end = guess.hidden ? curve.caption : guess;
    const drawn = curve.body.getBoundingClientRect();
    const others = drawn.top - find(curve).top + end.getBoundingClientRect().bottom - drawn.bottom;
    const below = last.element.hidden ? 0 : find(last).top - find(map).bottom + measure(last);
    return measure(map) + (below && below + PADDING) - others;
  }

  /** The exercise's card; what would give its answer away is hidden until there is one. */
  showExercise() {
    const { state } = this;
    const exercise = EXERCISES[state.exercise - 1];
    const hidden = exercise !== undefined && state.answer === null ? exercise.hides : [];
    this.hidesChoice = hidden.includes("choice");
    const { words, map, last, curve, timeline, numbers } = this;
    for (const [name, element] of Object.entries({
      words,
      map: map.element,
      last: last.element,
      curve: curve.element,
      timeline: timeline.element,
      numbers: numbers.element,
    })) {
      element.classList.toggle("kept-back", hidden.includes(name));
    }
    // Where no F is asked for, the slider stands at the model's choice.
    const tells = this.hidesChoice && state.f === null;
    this.slider.element.classList.toggle("kept-back", tells);
    const key = `${state.exercise} ${state.answer}`;
    if (this.exercise.dataset.key === key) return;
    this.exercise.dataset.key = key;
    this.exercise.replaceChildren();
    if (exercise === undefined) return;
    const context = this.makeContext();
    const verdict = state.answer === null ? null : exercise.check(state.answer, context);
    this.exercise.append(showExercise(this.frame, state, exercise.ask(context), verdict));
  }

  /** What an exercise may look at. */
  makeContext() {
    const { state, plan, chosen, sweep } = this;
    const planOther = (changes) => {
      const other = { ...state, ...changes };
      return planVariant(other, isServed(state) ? this.profile : buildProfile(other));
    };
    return { plan, chosen, planOther, sweep };
  }

  savePicture() {
    const shown = this.drawn.filter(
      ({ element, body }) => !element.hidden && body.firstElementChild,
    );
    return savePicture(this.plan, this.profile, shown);
  }

  saveTrace() {
    const measured = this.job ? this.job.timings : this.sweep?.measured;
    saveTrace(this.plan, measured, this.profile);
  }
}

/** The job that an address names, once it has succeeded; null without one. */
async function findJob({ job: id }, service) {
  if (id === null || !service.present) return null;
  const job = await service.get(`v1/jobs/${encodeURIComponent(id)}`);
  if (job.timings === null) return null;
  return { id, timings: { ...job.timings, f: job.timings.f_actual ?? job.plan.f } };
}
