/** The wave explorer: one product on one machine, as tiles, curves, a timeline and words. */

import { make } from "../dom.js";
import {
  buildProfile,
  findDefaultMachine,
  findGpus,
  findProfile,
  findSweep,
  isServed,
  needsThreads,
} from "../machines.js";
import { Refusal } from "../model/refusal.js";
import { Notice } from "../notice.js";
import { listExercises, makeExerciseCard } from "./exercise_card.js";
import { EXERCISES } from "./exercises.js";
import { Form } from "./form.js";
import { makeSweepList } from "./guess.js";
import { Results } from "./results.js";
import { planState } from "./state_plan.js";

export const EXPLORER = { mount, complete };

function mount(root, frame) {
  const explorer = new Explorer(root, frame);
  return { show: (state) => explorer.show(state), close: () => explorer.close() };
}

/** Fill in the machine if an address names none; false if it did not. */
async function complete(state, frame) {
  frame.gpus ??= await findGpus(frame.service);
  const isNamed = state.device !== null;
  if (isNamed && (state.threads !== null || !needsThreads(state))) return true;
  const machine = await findDefaultMachine(frame.service);
  state.device ??= machine.device;
  if (needsThreads(state)) state.threads ??= machine.threads;
  return false;
}

class Explorer {
  constructor(root, frame) {
    this.frame = frame;
    this.form = new Form(frame);
    this.list = make("div");
    this.exercise = make("div", { id: "exercise" });
    this.notice = new Notice(frame.service, () => this.show(this.state));
    this.results = new Results({
      preview: (f) => this.preview(f),
      pick: (f) => this.pick(f),
      go: frame.go,
    });
    this.layOut(root);
  }

  close() {
    this.results.close();
  }

  layOut(root) {
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
      this.results.words,
      this.results.element,
    );
    root.append(
      make("h1", { className: "sr", textContent: "Wave explorer" }),
      make("div", { className: "layout" }, side, content),
    );
  }

  async show(state) {
    this.state = state;
    this.form.show(state, null);
    this.showList(state);
    try {
      const profile = await findProfile(state, this.frame.service);
      const job = await findJob(state, this.frame.service);
      if (this.state !== state) return; // the address has changed meanwhile
      Object.assign(this, { profile, job });
      this.form.show(state, profile);
      this.compute();
      this.notice.clear();
      this.results.hide(false);
      this.showPlan();
    } catch (error) {
      this.refuse(error);
    }
  }

  /** The list of exercises anew; what has the focus keeps it. */
  showList({ exercise }) {
    const isFocused = this.list.contains(document.activeElement);
    this.list.replaceChildren(listExercises(this.frame, exercise));
    if (isFocused) this.list.querySelector("[aria-current]")?.focus();
  }

  /** Make the plan of the state, that of the model's choice, and find the sweep. */
  compute() {
    const { state, profile } = this;
    this.chosen = planState({ ...state, f: null }, profile);
    this.plan = this.chosen;
    if (state.f !== null && state.f !== this.chosen.f) this.plan = planState(state, profile);
    this.sweep = findSweep(state);
  }

  /** Show why there is no plan. */
  refuse(error) {
    this.results.hide(true);
    if (error instanceof Refusal) {
      this.form.tell(error.message, error.field);
    } else {
      this.notice.tell(error);
    }
  }

  showPlan() {
    const { state, profile, plan, chosen, sweep, job } = this;
    this.showExercise();
    const exercise = this.findExercise();
    const hidden = exercise !== undefined && state.answer === null ? exercise.hides : [];
    this.results.show({ state, profile, plan, chosen, sweep, job, hidden });
  }

  /** Show another F while the slider moves; the address changes when it is released. */
  preview(f) {
    const { state, chosen, profile } = this;
    this.plan = f === chosen.f ? chosen : planState({ ...state, f }, profile);
    this.showPlan();
  }

  /** Put an F into the address; the model's choice is left out, but not in an exercise. */
  pick(f) {
    const rows = Math.min(Math.max(0, Math.round(f)), this.state.m);
    const isLeftOut = rows === this.chosen.f && this.state.exercise === null;
    this.frame.go({ f: isLeftOut ? null : rows });
  }

  findExercise() {
    return EXERCISES[this.state.exercise - 1];
  }

  /** The card of the exercise, made anew for each exercise and answer. */
  showExercise() {
    const { state } = this;
    const exercise = this.findExercise();
    const key = `${state.exercise} ${state.answer}`;
    if (this.exercise.dataset.key === key) return;
    this.exercise.dataset.key = key;
    const isFocused = this.exercise.contains(document.activeElement);
    this.exercise.replaceChildren();
    if (exercise === undefined) {
      if (isFocused) this.list.querySelector("button").focus();
      return;
    }
    const context = this.makeContext();
    const verdict = state.answer === null ? null : exercise.check(state.answer, context);
    const card = makeExerciseCard(this.frame, state, exercise.ask(context), verdict);
    this.exercise.append(card);
    if (isFocused) card.querySelector("[aria-pressed=true], #answer, .choices button").focus();
  }

  /** The context of an exercise, with the exercise's own F: the slider changes no answer. */
  makeContext() {
    const { chosen, profile, sweep } = this;
    const state = { ...this.state, f: this.findExercise().state.f ?? null };
    const plan = state.f === null ? chosen : planState(state, profile);
    const planOther = (changes) => {
      const other = { ...state, ...changes };
      return planState(other, isServed(state) ? profile : buildProfile(other));
    };
    return { plan, chosen, planOther, sweep };
  }
}

/** The job that an address names, {id, timings}; null without one, or before it has succeeded. */
async function findJob({ job: id }, service) {
  if (id === null || !service.present) return null;
  const job = await service.get(`v1/jobs/${encodeURIComponent(id)}`);
  if (job.timings === null) return null;
  return { id, timings: { ...job.timings, f: job.timings.f_actual ?? job.plan.f } };
}
