/** The wave explorer: one product on one machine, as tiles, curves, a timeline and words. */

import { make } from "../dom.js";
import { chooseMachine, findOwnMachine, findSweep, needsThreads } from "../machines.js";
import { Notice } from "../notice.js";
import { Refusal } from "../service.js";
import { writeState } from "../state.js";
import { Answers } from "./answers.js";
import { listCalls } from "./calls.js";
import { judge, listExercises, makeExerciseCard } from "./exercise_card.js";
import { OPENING } from "./exercise_products.js";
import { EXERCISES } from "./exercises.js";
import { Form } from "./form.js";
import { makeSweepList } from "./guess.js";
import { Results } from "./results.js";

export class Explorer {
  /** Fill in the machine, or everything, if an address does not name it; false if so. */
  static async complete(state, frame) {
    frame.own ??= await findOwnMachine(frame.service);
    const isNamed = state.device !== null;
    if (isNamed && (state.threads !== null || !needsThreads(state))) return true;
    if (writeState(state) === "#") Object.assign(state, OPENING.state);
    const machine = chooseMachine(frame.own);
    state.device ??= machine.device;
    if (needsThreads(state)) state.threads ??= machine.threads;
    return false;
  }

  constructor(root, frame) {
    Object.assign(this, { frame, answers: new Answers(frame.service), wanted: null });
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

  draw() {
    this.results.draw();
  }

  layOut(root) {
    const exercises = make("h2", { textContent: "Exercises" });
    const side = make(
      "aside",
      { className: "side", "aria-label": "Product and machine" },
      this.form.element,
      make(
        "div",
        { className: "stack lists" },
        make("section", { className: "panel" }, exercises, this.list),
        makeSweepList(this.frame),
      ),
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
    Object.assign(this, { state, wanted: null });
    this.form.show(state, null);
    this.showList(state);
    try {
      const found = await this.find(state);
      if (this.state !== state) return; // the address has changed meanwhile
      Object.assign(this, found);
      this.form.show(state, this.chosen);
      this.notice.clear();
      this.results.hide(false);
      this.showExercise();
      this.showPlan();
    } catch (error) {
      if (this.state === state) this.refuse(error);
    }
  }

  /** All that a state shows: its plan, the model's choice, a job, a sweep, an exercise's plans. */
  async find(state) {
    const sweep = findSweep(state);
    const chosen = await this.ask({ ...state, f: null });
    const plan = await this.ask(state);
    const { service } = this.frame;
    const job = await findJob(state, service);
    this.frame.own ??= await findOwnMachine(service); // if it was refused without a key
    const exercise = EXERCISES[state.exercise - 1];
    if (exercise === undefined) return { chosen, plan, job, sweep, judged: null };
    // The exercise's own F: the slider changes no answer.
    const own = { ...state, f: exercise.state.f ?? null };
    const others = {};
    for (const [name, changes] of Object.entries(exercise.others))
      others[name] = await this.ask({ ...own, ...changes });
    const context = { plan: await this.ask(own), chosen, others, sweep };
    return { chosen, plan, job, sweep, context, judged: judge(exercise, state, context) };
  }

  ask(state) {
    return this.answers.find(state, this.frame.own?.devices);
  }

  /** The list of exercises anew; what has the focus keeps it. */
  showList({ exercise }) {
    const isFocused = this.list.contains(document.activeElement);
    this.list.replaceChildren(listExercises(this.frame, exercise));
    if (isFocused) this.list.querySelector("[aria-current]")?.focus();
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
    const { state, plan, chosen, sweep, job, judged } = this;
    const hidden = judged === null || judged.isOver ? [] : this.findExercise().hides;
    const guess = state.guess ?? (judged?.isOver ? Number(judged.last) || 0 : null);
    const isRecorded = this.answers.isRecorded(state);
    const calls = listCalls(state, this.frame.own?.devices);
    this.results.show({ state, plan, chosen, sweep, job, hidden, guess, isRecorded, calls });
  }

  /** Show another F while the slider moves; the address changes when it is released. */
  async preview(f) {
    this.results.glance(f);
    if (this.answers.isRecorded(this.state)) return;
    const isAsking = this.wanted !== null;
    this.wanted = f;
    if (!isAsking) await this.follow(this.state);
  }

  /** Ask for the F that is wanted now, one at a time, until the slider rests. */
  async follow(state) {
    while (this.state === state && this.wanted !== null) {
      const f = this.wanted;
      try {
        const plan = await this.ask({ ...state, f });
        if (this.state !== state) return; // the address has changed meanwhile
        if (this.wanted !== f) continue;
        this.plan = plan;
        this.showPlan();
      } catch (error) {
        if (this.state === state) this.refuse(error);
      }
      this.wanted = null;
    }
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
    const { key: before = "" } = this.exercise.dataset;
    if (before === key) return;
    this.exercise.dataset.key = key;
    const { activeElement } = document; // the button that began an exercise disappears
    const isFocused = [this.exercise, this.results.words].some((one) => one.contains(activeElement));
    this.exercise.replaceChildren();
    if (exercise === undefined) {
      if (isFocused) this.list.querySelector("button").focus();
      return;
    }
    const card = makeExerciseCard(this.frame, state, exercise.ask(this.context), this.judged);
    this.exercise.append(card);
    if (before.split(" ")[0] !== String(state.exercise)) card.scrollIntoView({ block: "nearest" });
    if (isFocused) card.querySelector("[aria-pressed=true], #answer, .choices button").focus();
  }
}

/** The job that an address names, {id, timings}; null without one, or before it has succeeded. */
async function findJob({ job: id }, service) {
  if (id === null || !service.present) return null;
  const job = await service.get(`v1/jobs/${encodeURIComponent(id)}`);
  if (job.timings === null) return null;
  return { id, timings: { ...job.timings, f: job.timings.f_actual ?? job.plan.f } };
}
