/** Eight exercises. Each has a product and a question; its recorded plans check the answer.
 *
 * `hides` names what is hidden until it is solved. `hint` is shown after a wrong answer. `choices`
 * are [answer, text]; without them the answer is a number. `ask(context)` is the question,
 * `check(answer, context)` gives {right, why}. The context has the `plan` of the state, the model's
 * choice (`chosen`), the `sweep`, and `others`, plans of other products or machines by name.
 */

import { showNumber, showSeconds, showShare, showWhole } from "../units.js";
import { PRODUCTS } from "./exercise_products.js";
import { findBest, findNearest } from "./guess.js";
import { countRowsInWaves } from "./plan.js";
import { countBusySeconds } from "./timeline.js";
import { count, nameChoice } from "./words.js";

const TEXTS = [
  {
    title: "Count the waves",
    hint: "Count the rows and columns of tiles. How many times do all these tiles fill the slots?",
    hides: ["words", "slider", "map", "last", "curve", "numbers", "timeline"],
    ask({ plan }) {
      const { tile_rows: rows, tile_columns: columns, slots } = plan.gpuParts[0];
      return `A tile has ${rows} × ${columns} elements of C, and the GPU has ${slots} slots. C has ${plan.problem.m} × ${plan.problem.n} elements. In how many waves is it computed?`;
    },
    check(answer, { plan }) {
      const { tile_rows: rows, tilesAcross, slots } = plan.gpuParts[0];
      const why = `C has ${Math.ceil(plan.problem.m / rows)} × ${tilesAcross} tiles. ${slots} are computed at a time, so there are ${count(plan.waves, "wave")}, and the last one is ${showShare(plan.tail_utilization)} full.`;
      return { right: Number(answer) === plan.waves, why };
    },
  },
  {
    title: "One more column",
    hint: "How many columns of tiles are there now, and how many were there before?",
    hides: ["map", "last", "numbers"],
    ask({ plan, others }) {
      const more = addColumn(plan, others);
      return `C has ${showWhole(plan.problem.n)} columns. The last of them costs ${showNumber(more * 100)}% of the time of all others. Why does one more column cost so much?`;
    },
    choices: [
      ["copies", "The copies take longer"],
      ["wave", "One more wave begins: it is not full, but costs as much as a full one"],
      ["cpu", "The CPU gets more rows"],
      ["kernel", "Another kernel is chosen"],
    ],
    check(answer, { plan, others }) {
      const { before } = others;
      const more = addColumn(plan, others);
      const why = `One more column makes one more column of tiles: ${count(before.waves, "wave")} before, ${plan.waves} now, the last one ${showShare(plan.tail_utilization)} full. The time goes from ${showSeconds(before.predicted.total_seconds)} to ${showSeconds(plan.predicted.total_seconds)}, by ${showNumber(more * 100)}%.`;
      return { right: answer === "wave", why };
    },
  },
  {
    title: "One wave less",
    hint: "How many tiles do the other waves hold? Count the whole rows of tiles among them.",
    hides: ["curve", "timeline", "drop"],
    ask: () => "How many rows must the CPU take at least, so that the GPU needs one wave less?",
    check(answer, { plan }) {
      const [{ slots, tile_rows: height, tilesAcross }] = plan.gpuParts;
      const least = plan.f_one_wave_less;
      const rows = plan.problem.m - least;
      const why = `${count(plan.waves - 1, "wave")} hold ${plan.waves - 1} × ${slots} tiles. These are ${rows / height} whole rows of ${tilesAcross} tiles, so ${showWhole(rows)} rows of C. The CPU must take the other ${showWhole(least)}.`;
      return { right: Number(answer) === least, why };
    },
  },
  {
    title: "Find the split",
    hint: "Move F to where both curves cross.",
    hides: ["numbers", "choice"],
    ask: () =>
      "The GPU's staircase falls as F grows, the CPU's line rises. Which F does the model choose? (Within one wave's rows is right.)",
    check(answer, { chosen }) {
      const near = countRowsInWaves(chosen.gpuParts[0], 1);
      const why = `The model chooses ${nameChoice(chosen)}: the smallest F at which the longer of both parts is shortest. The CPU then ends just before the GPU's last wave.`;
      return { right: answer !== "" && Math.abs(Number(answer) - chosen.f) <= near, why };
    },
  },
  {
    title: "Twice the CPU",
    hint: "How many threads compute beside the GPU, before and now?",
    hides: ["words", "map", "last", "curve", "numbers", "timeline", "choice"],
    ask({ others: { before } }) {
      return `With 2 CPU threads F is ${showWhole(before.f)}, and the product takes ${showSeconds(before.predicted.total_seconds)}. One thread is left to launch kernels and to copy. Now there are 4 threads. What happens to F?`;
    },
    choices: [
      ["less", "It stays below twice as much"],
      ["double", "It is about twice as much"],
      ["more", "It is more than twice as much"],
    ],
    check(answer, { chosen, others: { before } }) {
      const countThreads = ({ profile }) => profile.cpu.threads_beside_gpu;
      const ratio = chosen.f / before.f;
      const right = ratio < 1.8 ? "less" : ratio <= 2.2 ? "double" : "more";
      const why = `F goes from ${showWhole(before.f)} to ${showWhole(chosen.f)}, ${showNumber(ratio)} times as much: ${countThreads(before)} thread computes beside the GPU with 2, ${countThreads(chosen)} with 4. The time goes from ${showSeconds(before.predicted.total_seconds)} to ${showSeconds(chosen.predicted.total_seconds)}.`;
      return { right: answer === right, why };
    },
  },
  {
    title: "What holds it up?",
    hint: "Which is the largest of A, B and C when K is short?",
    hides: ["timeline"],
    ask: () =>
      "K is short here. Which queue of the GPU is at work for nearly all of the time, so that the CPU's help pays?",
    choices: [
      ["copy in", "Copies in"],
      ["kernel", "Kernels"],
      ["copy out", "Copies out"],
    ],
    check(answer, { plan }) {
      const busy = plan.queues.map(({ name, spans }) => [name, countBusySeconds(spans)]);
      const [longest] = busy
        .filter(([name]) => name !== "CPU")
        .sort((one, other) => other[1] - one[1])[0];
      const parts = busy.map(([name, seconds]) => `${name} ${showSeconds(seconds)}`).join(", ");
      return {
        right: answer === longest,
        why: `Busy: ${parts}. C is large and each element has little arithmetic, so the link is the limit.`,
      };
    },
  },
  {
    title: "When does the CPU help?",
    hint: "Rows of the CPU need no copies. After which change do copies take most of the time?",
    hides: ["words", "map", "last", "numbers", "timeline", "choice"],
    ask: () =>
      "For this product the model leaves every row to the H200. For which change does it give the CPU rows?",
    choices: [
      ["k", "K = 64 and M = N = 16,384"],
      ["size", "M = N = K = 16,384"],
      ["pageable", "Pageable in place of pinned memory"],
    ],
    check(answer, { others: { k, size, pageable } }) {
      const rows = { k: k.f, size: size.f, pageable: pageable.f };
      const why = `F is ${showWhole(k.f)} with the short K, ${showWhole(size.f)} with all three sizes doubled, and ${showWhole(pageable.f)} from pageable memory. With a short K the link is the limit: rows of the CPU need no copies.`;
      return { right: rows[answer] > 0, why };
    },
  },
  {
    title: "Against the measurement",
    hint: "The model's choice is marked below the curve. Try a value near it.",
    hides: [],
    ask({ plan, sweep }) {
      const points = sweep === undefined ? "many" : sweep.curve.length;
      return `An H100 was held to ${plan.sms} of its ${plan.profile.sm_count} multiprocessors and measured at ${points} values of F. Which F was the fastest? (An F that took at most 2% more is right.)`;
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

/** The exercises, each with its product. */
export const EXERCISES = TEXTS.map((one, index) => ({ ...one, ...PRODUCTS[index] }));

/** The share of the time of all other columns that the last column adds. */
function addColumn(plan, { before }) {
  return plan.predicted.total_seconds / before.predicted.total_seconds - 1;
}
