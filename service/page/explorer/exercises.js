/** Eight exercises. Each has a product and a question; the model checks the answer.
 *
 * `state` is the state of the page, `hides` names what is hidden until there is an answer.
 * `choices` are [answer, text]; without them the answer is a number. `ask(context)` is the
 * question, `check(answer, context)` gives {right, why}. The context has the `plan` of the state,
 * the model's choice (`chosen`), the `sweep`, and `planOther(changes)`, the plan of another product
 * or machine.
 */

import { showNumber, showSeconds, showShare, showWhole } from "../units.js";
import { findBest, findNearest } from "./guess.js";
import { countBusySeconds } from "./timeline.js";
import { count, nameChoice } from "./words.js";

const PINNED = { kernel: "cublas", memory: "pinned", threads: 16 };

export const EXERCISES = [
  {
    title: "Count the waves",
    state: { ...PINNED, m: 4096, n: 4096, k: 4096, dtype: "float32", device: "A100 SXM 40", f: 0 },
    hides: ["words", "map", "last", "curve", "numbers", "timeline"],
    ask({ plan }) {
      const { tileM, tileN, slots } = plan.gpuCurve.grid;
      return `A block computes a tile of ${tileM} × ${tileN} elements of C, and ${slots} blocks run at once. C has ${plan.problem.m} × ${plan.problem.n} elements. In how many waves is it computed?`;
    },
    check(answer, { plan }) {
      const { tileM, tilesPerTileRow, slots } = plan.gpuCurve.grid;
      const why = `C has ${Math.ceil(plan.problem.m / tileM)} × ${tilesPerTileRow} tiles. ${slots} run at once, so there are ${count(plan.waves, "wave")}, and the last one is ${showShare(plan.tailUtilization)} full.`;
      return { right: Number(answer) === plan.waves, why };
    },
  },
  {
    title: "One more column",
    state: {
      ...PINNED,
      kernel: "register",
      tile: "64x128x16",
      m: 2048,
      n: 5121,
      k: 8192,
      dtype: "float32",
      device: "T4",
      f: 0,
    },
    hides: ["map", "last", "numbers"],
    ask({ plan, planOther }) {
      const { more } = removeColumn(plan, planOther);
      return `C has ${showWhole(plan.problem.n)} columns. The last of them costs ${showNumber(more * 100)}% of the time of all others. Why does one more column cost so much?`;
    },
    choices: [
      ["copies", "The copies take 3% longer"],
      ["wave", "A new wave begins, not full, and costs a full one"],
      ["cpu", "The CPU gets more rows"],
      ["kernel", "Another kernel is chosen"],
    ],
    check(answer, { plan, planOther }) {
      const { before, more } = removeColumn(plan, planOther);
      const why = `One more column makes one more column of tiles: ${count(before.waves, "wave")} before, ${plan.waves} now, the last one ${showShare(plan.tailUtilization)} full. The time goes from ${showSeconds(before.totalSeconds)} to ${showSeconds(plan.totalSeconds)}, by ${showNumber(more * 100)}%.`;
      return { right: answer === "wave", why };
    },
  },
  {
    title: "One wave less",
    state: { ...PINNED, m: 4096, n: 4096, k: 4096, dtype: "float32", device: "A100 SXM 40", f: 0 },
    hides: ["curve", "timeline", "drop"],
    ask: () => "How many rows must the CPU take at least, so that the GPU needs one wave less?",
    check(answer, { plan }) {
      const rows = plan.gpuCurve.grid.findRowsInWaves(plan.waves - 1);
      const least = plan.problem.m - rows;
      const why = `${count(plan.waves - 1, "wave")} hold ${plan.waves - 1} × ${plan.gpuCurve.grid.slots} tiles. These are ${rows / plan.gpuCurve.grid.tileM} whole rows of ${plan.gpuCurve.grid.tilesPerTileRow} tiles, so ${showWhole(rows)} rows of C. The CPU must take the other ${showWhole(least)}.`;
      return { right: Number(answer) === least, why };
    },
  },
  {
    title: "Find the split",
    state: {
      m: 4096,
      n: 4096,
      k: 4096,
      dtype: "float64",
      memory: "pageable",
      device: "T4",
      threads: 2,
      f: 0,
    },
    hides: ["numbers", "choice"],
    ask: () =>
      "The GPU's staircase falls as F grows, the CPU's line rises. Which F does the model choose? (Within one wave's rows is right.)",
    check(answer, { chosen }) {
      const near = chosen.gpuCurve.grid.findRowsInWaves(1);
      const why = `The model chooses ${nameChoice(chosen)}: the smallest F at which the longer of both parts is shortest. The CPU then ends just before the GPU's last wave.`;
      return { right: answer !== "" && Math.abs(Number(answer) - chosen.f) <= near, why };
    },
  },
  {
    title: "Twice the CPU",
    state: {
      m: 4096,
      n: 4096,
      k: 4096,
      dtype: "float64",
      memory: "pageable",
      device: "T4",
      threads: 4,
    },
    hides: ["words", "map", "last", "curve", "numbers", "timeline", "choice"],
    ask({ planOther }) {
      const before = planOther({ threads: 2 });
      return `With 2 CPU threads F is ${showWhole(before.f)}, and the product takes ${showSeconds(before.totalSeconds)}. One thread is left to launch kernels and to copy. Now there are 4 threads. What happens to F?`;
    },
    choices: [
      ["less", "It stays below twice as much"],
      ["double", "It is about twice as much"],
      ["more", "It is more than twice as much"],
    ],
    check(answer, { chosen, planOther }) {
      const before = planOther({ threads: 2 });
      const ratio = chosen.f / before.f;
      const right = ratio < 1.8 ? "less" : ratio <= 2.2 ? "double" : "more";
      const why = `F goes from ${showWhole(before.f)} to ${showWhole(chosen.f)}, ${showNumber(ratio)} times as much: ${before.share.threads} thread computes beside the GPU with 2, ${chosen.share.threads} with 4. The time goes from ${showSeconds(before.totalSeconds)} to ${showSeconds(chosen.totalSeconds)}.`;
      return { right: answer === right, why };
    },
  },
  {
    title: "What holds it up?",
    state: {
      ...PINNED,
      kernel: "auto",
      m: 16384,
      n: 16384,
      k: 256,
      dtype: "float32",
      device: "H200",
    },
    hides: ["timeline"],
    ask: () =>
      "K is short here. Which queue of the GPU is at work for nearly all of the time, so that the CPU's help pays?",
    choices: [
      ["copy in", "Copies in"],
      ["kernel", "Kernels"],
      ["copy out", "Copies out"],
    ],
    check(answer, { plan }) {
      const busy = plan.listQueues().map(({ name, spans }) => [name, countBusySeconds(spans)]);
      const [longest] = busy
        .filter(([name]) => name !== "CPU")
        .sort((one, other) => other[1] - one[1])[0];
      const parts = busy.map(([name, seconds]) => `${name} ${showSeconds(seconds)}`).join(", ");
      return {
        right: answer === longest,
        why: `At work: ${parts}. C is large and each element has little arithmetic, so the link is the limit.`,
      };
    },
  },
  {
    title: "When does the CPU help?",
    state: {
      ...PINNED,
      kernel: "auto",
      m: 8192,
      n: 8192,
      k: 8192,
      dtype: "float32",
      device: "H200",
    },
    hides: ["words", "map", "last", "numbers", "timeline", "choice"],
    ask: () =>
      "For this product the model leaves every row to the H200. For which change does it give the CPU rows?",
    choices: [
      ["k", "K = 128 and M = N = 16,384"],
      ["size", "M = N = K = 16,384"],
      ["pageable", "Pageable in place of pinned memory"],
    ],
    check(answer, { planOther }) {
      const changes = {
        k: { m: 16384, n: 16384, k: 128 },
        size: { m: 16384, n: 16384, k: 16384 },
        pageable: { memory: "pageable" },
      };
      const rows = Object.fromEntries(
        Object.entries(changes).map(([name, change]) => [name, planOther(change).f]),
      );
      const why = `F is ${showWhole(rows.k)} with the short K, ${showWhole(rows.size)} with all three sizes doubled, and ${showWhole(rows.pageable)} from pageable memory. With a short K the link is the limit: rows of the CPU need no copies.`;
      return { right: rows[answer] > 0, why };
    },
  },
  {
    title: "Against the measurement",
    state: {
      m: 4096,
      n: 4096,
      k: 4096,
      dtype: "float32",
      memory: "pageable",
      device: "host-h200",
      sms: 8,
    },
    hides: [],
    ask({ plan, sweep }) {
      const points = sweep === undefined ? "many" : sweep.curve.length;
      return `An H200 was held to ${plan.sms} of its ${plan.profile.gpu.sm_count} multiprocessors and measured at ${points} values of F. Which F was the fastest? (An F that took at most 2% more is right.)`;
    },
    check(answer, { sweep }) {
      if (sweep === undefined)
        return { right: false, why: "No measurement of this product is stored." };
      const [best, seconds] = findBest(sweep.curve);
      const nearest = findNearest(sweep.curve, Number(answer));
      const why = `F = ${showWhole(best)} was the fastest, with ${showSeconds(seconds)}. The measured point nearest to your answer, F = ${showWhole(nearest[0])}, took ${showSeconds(nearest[1])}.`;
      return { right: answer !== "" && nearest[1] <= 1.02 * seconds, why };
    },
  },
];

/** The plan with one column less, and the share of its time that the last column adds. */
function removeColumn(plan, planOther) {
  const before = planOther({ n: plan.problem.n - 1 });
  return { before, more: plan.totalSeconds / before.totalSeconds - 1 };
}
