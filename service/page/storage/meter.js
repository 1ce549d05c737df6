/** Amounts within a limit, as a bar. */

import { draw, drawFigure } from "../dom.js";

const LENGTH = 1000;
const HEIGHT = 16;

/** The bar of [[class, amount], …], one over the other from the longest; `label` is it in words. */
export function makeMeter(amounts, limit, label) {
  const figure = drawFigure(LENGTH, HEIGHT, label);
  figure.setAttribute("preserveAspectRatio", "none");
  figure.setAttribute("class", "meter");
  const bar = (name, width) => draw("rect", { class: name, width, height: HEIGHT });
  figure.append(
    bar("rest", LENGTH),
    ...amounts.map(([name, amount]) => bar(name, Math.min(LENGTH, (LENGTH * amount) / limit))),
  );
  return figure;
}
