/** The results of the explorer: a plan in words, and the sections that draw it. */

import { makeButton, makeSelect } from "../controls.js";
import { make } from "../dom.js";
import { Section } from "../section.js";
import { drawCurve } from "./curve_plot.js";
import { findPoint } from "./curve_points.js";
import { askGuess, tellGuess } from "./guess.js";
import { drawLastWave, tellLastWave } from "./last_wave.js";
import { makeCalls } from "./calls.js";
import { openExercise } from "./exercise_card.js";
import { listNumbers, makeDeviceTable } from "./numbers.js";
import { savePicture, saveTrace } from "./saving.js";
import { RowSlider } from "./slider.js";
import { makeSourceTable } from "./sources.js";
import { explain } from "./terms.js";
import { drawTimeline, tellTimeline } from "./timeline.js";
import { drawWaveMap, tellWaveMap } from "./wave_map.js";
import { tellJob, tellParts, tellPlan } from "./words.js";

/** The view of a plan; `words` and `element` are its elements.
 *
 * `preview(f)` is called while the slider moves, `pick(f)` when an F is chosen. `go(changes)`
 * changes the address.
 */
export class Results {
  constructor({ preview, pick, go }) {
    Object.assign(this, { pick, go, shown: null });
    this.words = make("div", { className: "words", id: "words", "aria-live": "polite" });
    this.guess = make("div", { className: "guess", id: "guess" });
    this.slider = new RowSlider({ preview, pick });
    const ranges = [
      ["near", "near the split"],
      ["all", "all F"],
    ];
    const changeRange = () => go({ range: this.range.value });
    this.range = makeSelect(null, ranges, changeRange, { "aria-label": "Range of F" });
    const save = makeButton("Save for Perfetto", () => this.saveTrace());
    const savePicture = makeButton("Save a picture", () => this.savePicture());
    this.map = new Section("map", "C, tile by tile");
    this.last = new Section("last", "The last wave");
    this.curve = new Section("curve", "Seconds over F", this.range);
    this.timeline = new Section("timeline", "The schedule", save);
    this.numbers = new Section("numbers", "In numbers", savePicture);
    this.curve.element.append(this.guess);
    this.drawn = [this.map, this.curve, this.last, this.timeline];
    const sections = [...this.drawn, this.numbers].map(({ element }) => element);
    this.element = make("div", { className: "results" }, this.slider.element, ...sections);
  }

  /** Hide everything, as there is no plan, or show it again. */
  hide(isHidden) {
    this.element.hidden = this.words.hidden = isHidden;
  }

  /** Show {state, plan, chosen, sweep, job, hidden, guess, isRecorded, calls}.
   *
   * `chosen`: the plan of the model's choice. `hidden`: names of what an exercise hides. `guess`: of
   * the fastest F, null before there is one. `isRecorded`: whether there are plans of some F only.
   * `calls`: the plan as calls, [name, text].
   */
  show(shown) {
    const [hidesChoice, hidesDrop] = ["choice", "drop"].map((name) => shown.hidden.includes(name));
    this.shown = { ...shown, hidesChoice, hidesDrop };
    this.draw();
  }

  /** Move the slider and the mark on the curve to another F, before its plan is there. */
  glance(f) {
    const { plan, chosen } = this.shown;
    const moved = { ...plan, f, predicted: findPoint(plan.curve, f) };
    this.slider.show(moved, chosen, this.shown);
    this.drawCurve(moved);
  }

  draw() {
    if (this.shown === null || this.element.hidden) return;
    const { plan, chosen } = this.shown;
    this.hideSections();
    this.showWords();
    this.slider.show(plan, chosen, this.shown);
    this.map.show((width) => [drawWaveMap(plan, width)], tellWaveMap(plan));
    this.last.element.hidden = plan.gpuParts.length === 0;
    this.last.show((width) => drawLastWave(plan, width));
    this.drawCurve(plan);
    this.timeline.show((width) => [drawTimeline(plan, width)], tellTimeline(plan));
    const tables = [makeDeviceTable(plan), makeSourceTable(plan), makeCalls(this.shown.calls)];
    this.numbers.show(() => [listNumbers(plan, chosen), ...tables.filter(Boolean)]);
    // The numbers that are shown, for tests and scripts.
    const { f, waves, predicted } = plan;
    Object.assign(document.documentElement.dataset, { f, waves, seconds: predicted.total_seconds });
  }

  /** The plan in words, and the way to the exercises. */
  showWords() {
    const { state, plan, chosen, job } = this.shown;
    const begin = { type: "button", onclick: () => this.go(openExercise(1)) };
    const start = make("button", { ...begin, textContent: "Start: exercise 1" });
    this.words.replaceChildren(
      make("p", { className: "headline", id: "headline", textContent: tellPlan(plan) }),
      make("p", { id: "told-waves" }, explain(tellLastWave(plan))),
      make("p", { textContent: tellParts(plan, chosen) }),
      ...(job ? [make("p", { id: "told-job", textContent: tellJob(job) })] : []),
      ...(state.exercise === null ? [start] : []),
    );
  }

  /** Hide the answer of an exercise. */
  hideSections() {
    const { state, hidden, hidesChoice } = this.shown;
    // If no F is asked for, the slider is at the model's choice.
    const names = hidesChoice && state.f === null ? [...hidden, "slider"] : hidden;
    for (const name of ["words", "slider", "map", "last", "curve", "timeline", "numbers"]) {
      const element = this[name].element ?? this[name];
      element.classList.toggle("until-answer", names.includes(name));
    }
  }

  /** The curve, with what was measured once there is a guess. */
  drawCurve(plan) {
    const { chosen, state, sweep, guess, hidesChoice } = this.shown;
    const { range } = state;
    const revealed = guess === null ? undefined : sweep;
    this.range.value = range;
    this.guess.hidden = sweep === undefined || (guess === null && state.exercise !== null);
    if (!this.guess.hidden)
      this.guess.replaceChildren(
        revealed === undefined
          ? askGuess(sweep, (f) => this.go({ guess: f }))
          : tellGuess(revealed, guess, chosen),
      );
    const asked = { plan, chosen, range, sweep: revealed, guess, hidesChoice };
    this.curve.show((width) => drawCurve({ ...asked, width, onPick: this.pick }));
  }

  savePicture() {
    const { plan } = this.shown;
    return savePicture(plan, this.drawn.filter(({ element }) => !element.hidden));
  }

  saveTrace() {
    const { plan, job, sweep } = this.shown;
    saveTrace(plan, job ? job.timings : sweep?.measured);
  }
}
