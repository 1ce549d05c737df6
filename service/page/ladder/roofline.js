/** A kernel on the roofline: TFLOP/s over the arithmetic that there is for each byte of A, B and C. */

import { drawChart } from "../chart.js";
import { TABLES } from "../model/tables.js";
import { showNumber, showWhole } from "../units.js";

const SAMPLES = [1, 1e5];

/** Operations for each byte that must move, each element of A, B and C once. */
export function findIntensity([m, n, k], dtype) {
  return (2 * m * n * k) / ((m * k + k * n + m * n) * TABLES.constants.ITEM_BYTES[dtype]);
}

/** The figure and its legend; other kernels of the type are shown faintly. */
export function drawRoofline(ladder, rung, width) {
  const { memory } = ladder.roofs;
  const roofs = ladder.roofs[rung.dtype] ?? [];
  const others = ladder.rungs.filter((one) => one.dtype === rung.dtype && one !== rung);
  const place = (one) => one.products.map((product) => placeProduct(product, one));
  const shown = [rung, ...others].flatMap(place).map(([at]) => at);
  const [from, to] = [Math.min(...shown, SAMPLES[1]) / 5, Math.max(...shown, SAMPLES[0]) * 2];
  const slope = memory.rate / 1000;
  const top = Math.max(...roofs.map(([, rate]) => rate), 0);
  const lines = roofs.map(([name, rate]) => ({
    name: `${name}, ${showNumber(rate)} TFLOP/s`,
    kind: "line",
    points: [
      [Math.max(from, rate / slope), rate],
      [to, rate],
    ],
  }));
  const ridge = top ? Math.min(to, top / slope) : to;
  const series = [
    { name: rung.name, kind: "points", points: place(rung) },
    ...lines,
    {
      name: `${memory.name}, ${showWhole(memory.rate)} GB/s`,
      kind: "line",
      points: [
        [from, from * slope],
        [ridge, ridge * slope],
      ],
    },
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

function placeProduct(product, { name, dtype }) {
  const [m, n, k, tile, rate] = product;
  const title = `${name} ${tile}, ${[m, n, k].map(showWhole).join(" × ")}: ${showNumber(rate)} TFLOP/s`;
  return [findIntensity(product, dtype), rate, title];
}
