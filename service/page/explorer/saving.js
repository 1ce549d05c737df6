/** Downloads of what is shown: the drawings as a picture, the timeline as a trace. */

import { saveFile } from "../files.js";
import { showWhole } from "../units.js";
import { composePicture, renderPng } from "./picture.js";
import { renderTrace } from "./trace.js";
import { tellPlan } from "./words.js";

/** Save the drawings of some sections as one picture. */
export async function savePicture(plan, sections) {
  const drawings = sections.map(({ title, body }) => ({
    heading: title,
    figure: body.firstElementChild,
  }));
  const drawing = composePicture(tellPlan(plan), nameProduct(plan), drawings);
  saveFile(`${nameFile(plan)}.png`, await renderPng(drawing));
}

/** Save a plan's timeline, with what was measured, if anything was. */
export function saveTrace(plan, measured) {
  const text = renderTrace(plan, measured);
  saveFile(`${nameFile(plan)}.trace.json`, new Blob([text], { type: "application/json" }));
}

function nameProduct({ problem, machine, profile }) {
  const { m, n, k, dtype, memory } = problem;
  const sizes = [m, n, k].map(showWhole).join(" × ");
  return `${sizes} ${dtype}, ${memory} memory, ${machine}, ${profile.cpu.threads} CPU threads`;
}

function nameFile({ problem, f }) {
  return `wavetrim-${problem.m}x${problem.n}x${problem.k}-${problem.dtype}-f${f}`;
}
