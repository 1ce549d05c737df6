/** The roofline: a kernel's TFLOP/s over arithmetic intensity, operations a byte of A, B and C. */

import { CATALOG } from "../catalog.js";
import { drawChart } from "../chart.js";
import { showNumber, showWhole } from "../units.js";

/** Intensities that the axis shows at least. */
const SHOWN = [1, 1e5];

/** Arithmetic intensity of a product: operations a byte, if each element moves once. */
function findIntensity([m, n, k], dtype) {
  return (2 * m * n * k) / ((m * k + k * n + m * n) * CATALOG.itemBytes[dtype]);
}

/** The chart, {figure, legend}; other kernels of the element type are faint. */
export function drawRoofline(ladder, rung, width) {
  const others = ladder.rungs.filter((one) => one.dtype === rung.dtype && one !== rung);
  const place = (one) => one.products.map((product) => placeProduct(product, one));
  const shown = [rung, ...others].flatMap(place).map(([intensity]) => intensity);
  const from = Math.min(...shown, SHOWN[1]) / 5;
  const to = Math.max(...shown, SHOWN[0]) * 2;
  const series = [
    { name: rung.name, kind: "points", points: place(rung) },
    ...listRoofs(ladder.roofs, rung.dtype, from, to),
    { name: "other kernels", kind: "points", faint: true, points: others.flatMap(place) },
  ];
  const best = Math.max(...rung.products.map(([, , , , rate]) => rate));
  return drawChart({
    width,
    height: Math.round(Math.min(460, Math.max(300, width * 0.62))),
    label: `${rung.name} in ${rung.dtype} on the roofline of ${ladder.gpu}: at most ${showNumber(best)} TFLOP/s`,
    x: { name: "operations a byte of A, B and C", log: true },
    y: { name: "TFLOP/s", log: true },
    series,
  });
}

/** The roofs as lines between two intensities: the peaks of an element type, then the memory. */
function listRoofs(roofs, dtype, from, to) {
  const { memory, [dtype]: peaks = [] } = roofs;
  const slope = memory.rate / 1000; // TFLOP/s for each operation a byte
  const highest = Math.max(...peaks.map(([, rate]) => rate), 0);
  const ridge = highest ? Math.min(to, highest / slope) : to;
  const makeLine = (name, ...points) => ({ name, kind: "line", points });
  return [
    ...peaks.map(([name, rate]) => {
      const start = Math.max(from, rate / slope);
      return makeLine(`${name}, ${showNumber(rate)} TFLOP/s`, [start, rate], [to, rate]);
    }),
    makeLine(
      `${memory.name}, ${showWhole(memory.rate)} GB/s`,
      [from, from * slope],
      [ridge, ridge * slope],
    ),
  ];
}

/** A product as a point of the chart. */
function placeProduct(product, { name, dtype }) {
  const [m, n, k, tile, rate] = product;
  const title = `${name} ${tile}, ${[m, n, k].map(showWhole).join(" × ")}: ${showNumber(rate)} TFLOP/s`;
  return [findIntensity(product, dtype), rate, title];
}
