/** F as a slider and as a number, the model's choice marked, and buttons for the F that are asked for. */

import { make } from "../dom.js";
import { showWhole } from "../units.js";
import { tellChoice } from "./words.js";

/** The panel. `preview(f)` is called while the slider moves, `pick(f)` when it is let go. */
export class RowSlider {
  constructor({ preview, pick, savePicture }) {
    this.pick = pick;
    this.input = make("input", {
      type: "range",
      id: "f",
      min: 0,
      step: 1,
      "aria-describedby": "f-choice",
      oninput: () => preview(Number(this.input.value)),
      onchange: () => pick(Number(this.input.value)),
    });
    this.number = make("input", {
      type: "number",
      id: "f-number",
      min: 0,
      step: 1,
      "aria-label": "F, rows of C for the CPU",
      onchange: () => this.number.value !== "" && pick(Number(this.number.value)),
    });
    this.choice = make("p", { id: "f-choice", className: "caption" });
    this.mark = make("span", {
      className: "mark",
      title: "the model's choice",
      "aria-hidden": "true",
    });
    this.own = makeButton("The model's choice", () => pick(this.chosen.f));
    this.alone = makeButton("GPU alone", () => pick(0));
    this.gpuButtons = [
      this.alone,
      makeButton("One wave less", () => this.dropWave()),
    ];
    const label = {
      htmlFor: "f",
      id: "f-label",
      textContent: "F: rows of C that the CPU computes",
    };
    this.element = make(
      "section",
      { className: "panel slider", "aria-labelledby": "f-label" },
      make("div", { className: "head" }, make("label", label), this.number),
      make("div", { className: "track" }, this.input, this.mark),
      this.choice,
      make(
        "p",
        { className: "row" },
        this.own,
        ...this.gpuButtons,
        makeButton("Save a picture", savePicture),
      ),
    );
  }

  /** Show a plan's F; `hidesChoice`: whether the model's own is to be found by the reader. */
  show(plan, chosen, hidesChoice) {
    Object.assign(this, { plan, chosen });
    const { m } = plan.problem;
    this.input.max = this.number.max = m;
    this.input.value = this.number.value = plan.f;
    this.input.setAttribute("aria-valuetext", `${showWhole(plan.f)} of ${showWhole(m)} rows`);
    for (const one of [this.input, this.number, ...this.gpuButtons]) one.disabled = !plan.gpuCurve;
    this.alone.textContent = plan.gpuParts.length > 1 ? "GPUs alone" : "GPU alone";
    this.mark.style.setProperty("--at", chosen.f / m);
    this.mark.hidden = this.own.hidden = hidesChoice;
    this.choice.textContent = hidesChoice ? "" : tellChoice(plan, chosen);
  }

  dropWave() {
    const { gpuParts: parts, dividesColumns, gpuRows, problem } = this.plan;
    if (gpuRows === 0) return;
    const rows = parts.map(({ curve, waves }) => curve.grid.findRowsInWaves(waves - 1));
    const all = dividesColumns ? Math.min(...rows) : rows.reduce((sum, one) => sum + one, 0);
    this.pick(problem.m - all);
  }
}

/** A button that is not the main one. */
export function makeButton(text, onclick) {
  return make("button", { type: "button", className: "quiet", textContent: text, onclick });
}
