/** The control of F: a slider with the model's choice marked, a number, and buttons for some F. */

import { makeButton } from "../controls.js";
import { make } from "../dom.js";
import { showWhole } from "../units.js";
import { tellChoice } from "./words.js";

const RECORDED = "Only some F are recorded: the slider moves to the nearest.";

/** The panel. `preview(f)` is called while the slider moves, `pick(f)` when it is released. */
export class RowSlider {
  constructor({ preview, pick }) {
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
      onchange: () => pick(this.number.value === "" ? this.plan.f : Number(this.number.value)),
    });
    this.choice = make("p", { id: "f-choice", className: "caption" });
    this.mark = make("span", {
      className: "mark",
      title: "the model's choice",
      "aria-hidden": "true",
    });
    this.toChoice = makeButton("The model's choice", () => pick(this.chosen.f));
    this.toGpuAlone = makeButton("GPU alone", () => pick(0));
    this.toOneWaveLess = makeButton("One wave less", () => pick(this.plan.f_one_wave_less));
    const buttons = [this.toChoice, this.toGpuAlone, this.toOneWaveLess];
    const text = "F: rows of C that the CPU computes";
    const label = { htmlFor: "f", id: "f-label", textContent: text };
    this.element = make(
      "section",
      { className: "panel slider", "aria-labelledby": "f-label" },
      make("div", { className: "head" }, make("label", label), this.number),
      make("div", { className: "track" }, this.input, this.mark),
      make("div", { className: "row" }, this.choice, ...buttons),
    );
  }

  /** Show a plan's F.
   *
   * `hidesChoice`: whether the user is to find the model's choice; `hidesDrop`: the F of a wave less.
   * `isRecorded`: whether there are plans of some F only.
   */
  show(plan, chosen, { hidesChoice, hidesDrop, isRecorded }) {
    Object.assign(this, { plan, chosen });
    const { m } = plan.problem;
    this.input.max = this.number.max = m;
    this.input.value = this.number.value = plan.f;
    this.input.setAttribute("aria-valuetext", `${showWhole(plan.f)} of ${showWhole(m)} rows`);
    for (const one of [this.input, this.number, this.toGpuAlone]) one.disabled = !plan.hasGpu;
    this.toOneWaveLess.disabled = plan.f_one_wave_less === null;
    this.toGpuAlone.textContent = plan.gpuParts.length > 1 ? "GPUs alone" : "GPU alone";
    this.mark.style.setProperty("--at", chosen.f / m);
    this.mark.hidden = this.toChoice.hidden = hidesChoice;
    this.toOneWaveLess.hidden = hidesDrop;
    const told = [hidesChoice ? "" : tellChoice(plan, chosen), isRecorded ? RECORDED : ""];
    this.choice.textContent = told.filter(Boolean).join(" ");
  }
}
