/** Measured products: the user guesses the fastest F, then sees what was measured. */

import { makeLabel, makeSelect } from "../controls.js";
import { make } from "../dom.js";
import { RECORDED } from "../recorded.js";
import { unset } from "../state.js";
import { showNumber, showSeconds, showWhole } from "../units.js";
import { nameChoice } from "./words.js";

/** The panel in which a measured product is chosen. */
export function makeSweepList(frame) {
  const { sweeps } = RECORDED;
  const options = sweeps.map((one, index) => [index, nameSweep(one)]);
  const select = makeSelect("sweep", [["", "choose one"], ...options], () => {
    if (select.value === "") return;
    frame.go(openSweep(sweeps[Number(select.value)]));
    select.value = "";
  });
  return make(
    "section",
    { className: "panel" },
    make("h2", { textContent: "Measured products" }),
    make("p", { className: "caption", textContent: "Guess first, then see what was measured." }),
    makeLabel(select, "Product"),
    select,
  );
}

/** The changes of the state that show a measured product. */
function openSweep({ m, n, k, dtype, memory, sms, device }) {
  const kernel = unset("kernel", "tile", "accuracy");
  const machine = unset("rate", "gpus", "linkrate", "threads");
  const shown = unset("f", "job", "guess", "exercise", "answer");
  return { ...kernel, ...machine, ...shown, m, n, k, dtype, memory, device, sms };
}

/** The form that asks for a guess; `take(f)` gets it. */
export function askGuess(sweep, take) {
  const most = sweep.m;
  const input = make("input", { type: "number", id: "guess-f", min: 0, max: most, required: true });
  const text = `This product was measured at ${sweep.curve.length} values of F. Guess the fastest F`;
  const onsubmit = (event) => {
    event.preventDefault();
    take(Math.min(most, Math.max(0, Math.round(Number(input.value)))));
  };
  return make(
    "form",
    { className: "row", onsubmit },
    makeLabel(input, text),
    input,
    make("button", { type: "submit", textContent: "Reveal" }),
  );
}

/** What was measured at the fastest F, at the guess, and at the model's choice. */
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

/** The fastest point, [f, seconds], of a measured curve. */
export function findBest(curve) {
  return curve.reduce((best, point) => (point[1] < best[1] ? point : best));
}

/** The point, [f, seconds], of a measured curve whose F is nearest. */
export function findNearest(curve, f) {
  const distance = (point) => Math.abs(point[0] - f);
  return curve.reduce((near, point) => (distance(point) < distance(near) ? point : near));
}

function nameSweep({ m, n, k, dtype, memory, sms, device }) {
  const size = m === n && n === k ? `${m}³` : `${m} × ${n} × ${k}`;
  const held = sms === null ? "" : `, ${sms} multiprocessors`;
  return `${size} ${dtype}, ${memory}${held} (${device.replace("host-", "").toUpperCase()})`;
}
