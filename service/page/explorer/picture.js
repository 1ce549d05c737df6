/** A picture of several drawings, below each other, as PNG. */

import { draw, drawFigure, write } from "../dom.js";

const MARGIN = 24;
const SCALE = 2;

/** One drawing of several, each {heading, figure}. */
export function composePicture(title, subtitle, drawings) {
  const width = Math.max(...drawings.map(({ figure }) => Number(figure.getAttribute("width"))));
  let y = MARGIN + 26;
  const placed = [];
  for (const { heading, figure } of drawings) {
    placed.push(
      write(MARGIN, y + 40, heading, { fill: "var(--text)", "font-size": 15, "font-weight": 600 }),
    );
    const copy = figure.cloneNode(true);
    copy.setAttribute("x", MARGIN);
    copy.setAttribute("y", y + 52);
    placed.push(copy);
    y += 52 + Number(figure.getAttribute("height"));
  }
  const whole = drawFigure(width + 2 * MARGIN, y + MARGIN, title);
  const ground = draw("rect", { width: "100%", height: "100%", fill: "var(--surface)" });
  whole.append(
    ground,
    write(MARGIN, MARGIN + 12, title, { fill: "var(--text)", "font-size": 19, "font-weight": 600 }),
    write(MARGIN, MARGIN + 34, subtitle, { fill: "var(--faint)", "font-size": 13 }),
    ...placed,
  );
  return whole;
}

/** A drawing as a PNG file, in the colours that the page has now. */
export async function renderPng(drawing) {
  const style = getComputedStyle(document.documentElement);
  const text = new XMLSerializer()
    .serializeToString(drawing)
    .replaceAll(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
  const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = SCALE * Number(drawing.getAttribute("width"));
    canvas.height = SCALE * Number(drawing.getAttribute("height"));
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done) => canvas.toBlob(done, "image/png"));
  } finally {
    URL.revokeObjectURL(url);
  }
}
