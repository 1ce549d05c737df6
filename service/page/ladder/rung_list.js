/** The ladder itself: a kernel a rung, with its speed at one size as a bar. */

import { make } from "../dom.js";
import { showNumber, showShare } from "../units.js";

const SIZES = [4096, 8192, 16384, 1024];

/** The size of square products that most kernels of a ladder were measured at. */
export function findSize(rungs) {
  const count = (size) => rungs.filter((rung) => findProduct(rung, size)).length;
  return SIZES.reduce((best, size) => (count(size) > count(best) ? size : best));
}

/** Buttons for the kernels of a type, slowest first as they are climbed. */
export function listRungs(rungs, chosen, choose) {
  const size = findSize(rungs);
  const most = Math.max(...rungs.map((rung) => findProduct(rung, size)?.[4] ?? 0));
  return make(
    "ol",
    { className: "rungs" },
    ...rungs.map((rung) => {
      const product = findProduct(rung, size);
      const rate = product?.[4] ?? 0;
      const meter = make("span", { className: "bar", "aria-hidden": "true" });
      meter.style.setProperty("--share", rate / most);
      const beside = product?.[5] ? `, ${showShare(product[5])} of cuBLAS` : "";
      const told = product ? `${showNumber(rate)} TFLOP/s${beside}` : "not measured at this size";
      return make(
        "li",
        {},
        make(
          "button",
          {
            type: "button",
            "aria-pressed": String(rung === chosen),
            onclick: () => choose(rung),
          },
          make("span", { className: "name", textContent: rung.name }),
          meter,
          make("span", { className: "rate", textContent: told }),
        ),
      );
    }),
  );
}

function findProduct({ products }, size) {
  return products.find(([m, n, k]) => m === size && n === size && k === size);
}
