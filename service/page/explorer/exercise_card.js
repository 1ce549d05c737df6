/** The card of an exercise: its question, and the verdict on an answer; the list of exercises. */

import { makeButton, makeLabel } from "../controls.js";
import { make } from "../dom.js";
import { unset } from "../state.js";
import { EXERCISES } from "./exercises.js";
import { explain } from "./terms.js";

/** Number of wrong answers after which the right one is shown. */
const MOST_TRIES = 3;
/** Stands for an answer when the user has asked for the right one. */
const ASKED = "?";

/** The changes of the state that open an exercise, by its number from 1. */
export function openExercise(number) {
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

/** The verdict on the answers of a state: {tries, last, isOver, head, text}.
 *
 * `isOver`: whether one is right, or the right one is shown. `head` and `text` are about the last
 * answer: why it is right or wrong, or a hint.
 */
export function judge(exercise, { answer }, context) {
  const tries = answer === null ? [] : answer.split(",");
  const last = tries.at(-1);
  if (last === undefined) return { tries, isOver: false };
  const checked = tries.map((one) => exercise.check(one, context));
  const isFound = tries.some((one, index) => one === ASKED || checked[index].right);
  const isOver = isFound || tries.length >= MOST_TRIES;
  const { right, why } = checked.at(-1);
  const head = right ? "Right." : last === ASKED ? "The answer:" : "Not so.";
  return { tries, last, isOver, right, head, text: isOver ? why : `Hint: ${exercise.hint}` };
}

/** The card of the exercise that a state names, with the verdict on its answers. */
export function makeExerciseCard(frame, state, question, judged) {
  const exercise = EXERCISES[state.exercise - 1];
  const answer = (value) => frame.go({ answer: [...judged.tries, value].slice(-MOST_TRIES).join() });
  const number = `Exercise ${state.exercise} of ${EXERCISES.length}`;
  const close = makeButton("Close", () => frame.go(unset("exercise", "answer")));
  const next = makeButton("Next exercise", () => frame.go(openExercise(state.exercise + 1)));
  return make(
    "section",
    { className: "card", "aria-labelledby": "exercise-title" },
    make("p", { className: "eyebrow", textContent: number }),
    make("h2", { id: "exercise-title", textContent: exercise.title }),
    make("p", { className: "question" }, explain(question)),
    exercise.choices ? makeChoices(exercise, judged, answer) : makeNumberForm(judged, answer),
    make("div", { role: "status" }, judged.last === undefined ? null : makeVerdict(judged)),
    make(
      "p",
      { className: "row" },
      close,
      judged.isOver ? null : makeButton("Show the answer", () => answer(ASKED)),
      state.exercise < EXERCISES.length ? next : null,
    ),
  );
}

function makeVerdict({ right, head, text }) {
  const className = right ? "verdict right" : "verdict wrong";
  return make("p", { className }, make("strong", { textContent: `${head} ` }), text);
}

function makeChoices({ choices }, { last }, answer) {
  const buttons = choices.map(([value, text]) =>
    make("button", {
      type: "button",
      textContent: text,
      "aria-pressed": String(last === value),
      onclick: () => answer(value),
    }),
  );
  return make("div", { className: "choices" }, ...buttons);
}

function makeNumberForm({ last: value = "" }, answer) {
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
