/** The card of an exercise: its question, and the verdict on an answer; the list of exercises. */

import { makeButton, makeLabel } from "../controls.js";
import { make } from "../dom.js";
import { unset } from "../state.js";
import { EXERCISES } from "./exercises.js";

/** The changes of the state that open an exercise, by its number from 1. */
function openExercise(number) {
  const kernel = unset("kernel", "tile", "accuracy", "sms");
  const machine = unset("rate", "gpus", "linkrate", "threads");
  const shown = unset("f", "job", "range", "guess", "answer");
  const { state } = EXERCISES[number - 1];
  return { ...kernel, ...machine, ...shown, ...state, exercise: number };
}

/** The list of all exercises; `current` is the number of the one that is open. */
export function listExercises(frame, current) {
  const items = EXERCISES.map(({ title }, index) => {
    const isOpen = current === index + 1;
    const open = () => frame.go(openExercise(index + 1));
    const button = { type: "button", textContent: title, onclick: open };
    return make("li", {}, make("button", { ...button, "aria-current": isOpen ? "true" : null }));
  });
  return make("ol", { className: "exercises" }, ...items);
}

/** The card; `verdict` is null before there is an answer. */
export function makeExerciseCard(frame, state, question, verdict) {
  const exercise = EXERCISES[state.exercise - 1];
  const answer = (value) => frame.go({ answer: value });
  const number = `Exercise ${state.exercise} of ${EXERCISES.length}`;
  const close = makeButton("Close", () => frame.go(unset("exercise", "answer")));
  const next = makeButton("Next exercise", () => frame.go(openExercise(state.exercise + 1)));
  return make(
    "section",
    { className: "card", "aria-labelledby": "exercise-title" },
    make("p", { className: "eyebrow", textContent: number }),
    make("h2", { id: "exercise-title", textContent: exercise.title }),
    make("p", { className: "question", textContent: question }),
    exercise.choices ? makeChoices(exercise, state, answer) : makeNumberForm(state, answer),
    make("div", { role: "status" }, verdict && makeVerdict(verdict)),
    make("p", { className: "row" }, close, state.exercise < EXERCISES.length ? next : null),
  );
}

function makeVerdict({ right, why }) {
  return make(
    "p",
    { className: right ? "verdict right" : "verdict wrong" },
    make("strong", { textContent: right ? "Right. " : "Not so. " }),
    why,
  );
}

function makeChoices({ choices }, state, answer) {
  const buttons = choices.map(([value, text]) =>
    make("button", {
      type: "button",
      textContent: text,
      "aria-pressed": String(state.answer === value),
      onclick: () => answer(value),
    }),
  );
  return make("div", { className: "choices" }, ...buttons);
}

function makeNumberForm(state, answer) {
  const value = state.answer ?? "";
  const input = make("input", { type: "number", id: "answer", required: true, value, min: 0 });
  const onsubmit = (event) => {
    event.preventDefault();
    answer(input.value);
  };
  return make(
    "form",
    { className: "row", onsubmit },
    makeLabel(input, "Your answer"),
    input,
    make("button", { type: "submit", textContent: "Check" }),
  );
}
