/** A meter: a bar of amounts within a limit. */

import { draw, drawFigure } from "../dom.js";

const LENGTH = 1000;
const HEIGHT = 16;

/** The meter of [[class, amount], …], the largest first: each is drawn over those before it. */
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
