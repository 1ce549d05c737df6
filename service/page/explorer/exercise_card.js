/** One exercise: its question, the answer, and what the page says to it. */

import { make } from "../dom.js";
import { EXERCISES } from "./exercises.js";

/** The address of an exercise, as changes of the state. */
export function openExercise(number) {
  const unset = {
    kernel: "auto",
    tile: null,
    accuracy: null,
    sms: null,
    rate: null,
    gpus: null,
    linkrate: null,
    threads: null,
    f: null,
    job: null,
    range: "near",
    guess: null,
    answer: null,
  };
  return { ...unset, ...EXERCISES[number - 1].state, exercise: number };
}

/** The list of all exercises. */
export function listExercises(frame, current) {
  return make(
    "ol",
    { className: "exercises" },
    ...EXERCISES.map(({ title }, index) =>
      make(
        "li",
        {},
        make("button", {
          type: "button",
          textContent: title,
          "aria-current": current === index + 1 ? "true" : null,
          onclick: () => frame.go(openExercise(index + 1)),
        }),
      ),
    ),
  );
}

/** The card with its question; `verdict` is null before there is an answer. */
export function showExercise(frame, state, question, verdict) {
  const exercise = EXERCISES[state.exercise - 1];
  const answer = (value) => frame.go({ answer: value });
  return make(
    "section",
    { className: "card", "aria-labelledby": "exercise-title" },
    make("p", {
      className: "eyebrow",
      textContent: `Exercise ${state.exercise} of ${EXERCISES.length}`,
    }),
    make("h2", { id: "exercise-title", textContent: exercise.title }),
    make("p", { className: "question", textContent: question }),
    exercise.choices ? makeChoices(exercise, state, answer) : makeNumber(state, answer),
    make("div", { role: "status" }, verdict && tell(verdict)),
    make(
      "p",
      { className: "row" },
      make("button", {
        type: "button",
        className: "quiet",
        textContent: "Close",
        onclick: () => frame.go({ exercise: null, answer: null }),
      }),
      state.exercise < EXERCISES.length
        ? make("button", {
            type: "button",
            className: "quiet",
            textContent: "Next exercise",
            onclick: () => frame.go(openExercise(state.exercise + 1)),
          })
        : null,
    ),
  );
}

function tell({ right, why }) {
  return make(
    "p",
    { className: right ? "verdict right" : "verdict wrong" },
    make("strong", { textContent: right ? "Right. " : "Not so. " }),
    why,
  );
}

function makeChoices({ choices }, state, answer) {
  return make(
    "div",
    { className: "choices" },
    ...choices.map(([value, text]) =>
      make("button", {
        type: "button",
        textContent: text,
        "aria-pressed": String(state.answer === value),
        onclick: () => answer(value),
      }),
    ),
  );
}

function makeNumber(state, answer) {
  const input = make("input", {
    type: "number",
    id: "answer",
    required: true,
    value: state.answer ?? "",
    min: 0,
  });
  return make(
    "form",
    {
      className: "row",
      onsubmit: (event) => {
        event.preventDefault();
        answer(input.value);
      },
    },
    make("label", { htmlFor: "answer", textContent: "Your answer" }),
    input,
    make("button", { type: "submit", textContent: "Check" }),
  );
}
