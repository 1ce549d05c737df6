/** The rungs of the ladder: kernels, each with its rate at one size as a bar. */

import { make } from "../dom.js";
import { showNumber, showShare } from "../units.js";

/** Sizes to compare kernels at, the preferred one first. */
const SIZES = [4096, 8192, 16384, 1024];

/** The size of square products that most kernels of a ladder were measured at. */
export function findSize(rungs) {
  const count = (size) => rungs.filter((rung) => findProduct(rung, size)).length;
  return SIZES.reduce((best, size) => (count(size) > count(best) ? size : best));
}

/** Buttons for the kernels of an element type, in the ladder's order. */
export function listRungs(rungs, chosen, choose) {
  const size = findSize(rungs);
  const rates = rungs.map((rung) => findProduct(rung, size)?.rate ?? 0);
  const highest = Math.max(...rates);
  const items = rungs.map((rung, index) => {
    const bar = make("span", { className: "bar", "aria-hidden": "true" });
    bar.style.setProperty("--share", rates[index] / highest);
    const pressed = { type: "button", "aria-pressed": String(rung === chosen) };
    return make(
      "li",
      {},
      make(
        "button",
        { ...pressed, onclick: () => choose(rung) },
        make("span", { className: "name", textContent: rung.name }),
        bar,
        make("span", { className: "rate", textContent: tellRate(findProduct(rung, size)) }),
      ),
    );
  });
  return make("ol", { className: "rungs" }, ...items);
}

/** A kernel's square product of that size, {rate, cublasShare}; null if it was not measured. */
function findProduct({ products }, size) {
  const found = products.find(([m, n, k]) => m === size && n === size && k === size);
  if (found === undefined) return null;
  const [, , , , rate, cublasShare] = found;
  return { rate, cublasShare };
}

function tellRate(product) {
  if (product === null) return "not measured at this size";
  const { rate, cublasShare } = product;
  const share = cublasShare ? `, ${showShare(cublasShare)} of cuBLAS` : "";
  return `${showNumber(rate)} TFLOP/s${share}`;
}
