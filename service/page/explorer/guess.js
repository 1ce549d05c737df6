/** Measured products: a guess first, then what was measured. */

import { make } from "../dom.js";
import { listSweeps } from "../machines.js";
import { showNumber, showSeconds, showWhole } from "../units.js";
import { nameChoice } from "./words.js";

/** The panel in which a measured product is chosen. */
export function makeSweepList(frame) {
  const sweeps = listSweeps();
  const choose = () => {
    if (select.value === "") return;
    const { m, n, k, dtype, memory, sms, whole, device } = sweeps[Number(select.value)];
    select.value = "";
    const unset = {
      kernel: "auto",
      tile: null,
      accuracy: null,
      rate: null,
      gpus: null,
      f: null,
      job: null,
      guess: null,
      exercise: null,
      answer: null,
    };
    frame.go({ ...unset, m, n, k, dtype, memory, device, sms: whole ? null : sms });
  };
  const select = make(
    "select",
    { id: "sweep", onchange: choose },
    make("option", { value: "", textContent: "choose one" }),
    ...sweeps.map((one, index) => make("option", { value: index, textContent: nameSweep(one) })),
  );
  return make(
    "section",
    { className: "panel" },
    make("h2", { textContent: "Measured products" }),
    make("p", { className: "caption", textContent: "Guess first, then see what was measured." }),
    make("label", { htmlFor: "sweep", textContent: "Product" }),
    select,
  );
}

/** What asks for the guess. */
export function askGuess(sweep, guess) {
  const input = make("input", {
    type: "number",
    id: "guess-f",
    min: 0,
    max: sweep.m,
    required: true,
  });
  const text = `This product was measured at ${sweep.curve.length} values of F. Guess the fastest F`;
  const onsubmit = (event) => {
    event.preventDefault();
    guess(Math.min(sweep.m, Math.max(0, Math.round(Number(input.value)))));
  };
  return make(
    "form",
    { className: "row", onsubmit },
    make("label", { htmlFor: "guess-f", textContent: text }),
    input,
    make("button", { type: "submit", textContent: "Reveal" }),
  );
}

/** What was measured, at the guess and at the model's choice. */
export function tellGuess({ curve }, guess, chosen) {
  const [best, seconds] = findBest(curve);
  const tell = (wanted) => {
    const [f, time] = findNearest(curve, wanted);
    if (f === best) return "the fastest";
    const more = showNumber(100 * (time / seconds - 1));
    return `F = ${showWhole(f)} took ${showSeconds(time)}, ${more}% more`;
  };
  const text =
    `Measured: F = ${showWhole(best)} was the fastest, ${showSeconds(seconds)}. ` +
    `Nearest to your guess of ${showWhole(guess)}: ${tell(guess)}. ` +
    `Nearest to the model's choice, ${nameChoice(chosen)}: ${tell(chosen.f)}.`;
  return make("p", { id: "revealed", textContent: text });
}

/** The fastest point of a measured curve. */
export function findBest(curve) {
  return curve.reduce((best, point) => (point[1] < best[1] ? point : best));
}

/** The point of a measured curve whose F is nearest. */
export function findNearest(curve, f) {
  const distance = (point) => Math.abs(point[0] - f);
  return curve.reduce((near, point) => (distance(point) < distance(near) ? point : near));
}

function nameSweep({ m, n, k, dtype, memory, sms, whole, device }) {
  const size = m === n && n === k ? `${m}³` : `${m} × ${n} × ${k}`;
  const held = whole ? "" : `, ${sms} multiprocessors`;
  return `${size} ${dtype}, ${memory}${held} (${device.replace("host-", "").toUpperCase()})`;
}
