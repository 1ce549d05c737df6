/** The fastest cut of a product, of a small family that is timed (kernels/schedule/cuts.py). */

import { Cache, divideUp, roundEven } from "../arithmetic.js";
import { TABLES } from "../tables.js";
import { roundToWaves } from "./panels.js";
import { timeSchedule } from "./schedule.js";
import { cutSteps } from "./steps.js";

const {
  PANELS,
  DRAINS,
  DEPTH_STEPS,
  WIDTHS,
  COLUMN_PARTS,
  DEPTH_QUANTUM,
  USUAL_PANELS,
  USUAL_DRAIN,
  USUAL_DEPTH_STEPS,
  NEAR,
} = TABLES.constants;

const plans = new Cache(512);

/** The steps of a product by the fastest cut of the family that fits the memory.
 *
 * First the prologue is chosen, with panels of a usual size. Then the number of panels, the drain
 * and the prologue's steps along K are varied in turn.
 */
export function planSteps(problem, rates, memoryBytes) {
  const key = `${problem.key} ${rates.key} ${memoryBytes}`;
  return plans.find(key, () => findFastest(problem, rates, memoryBytes));
}

function findFastest(problem, rates, memoryBytes) {
  let best = cutSteps(problem, takeWhole(problem), memoryBytes);
  let bestSeconds = timeSchedule(problem, best.steps, rates).seconds;
  const varyPrologue = (one, cut) => listPrologues(rates, one, cut);
  for (const vary of [varyPrologue, varyPanels, varyDrain, varyDepth]) {
    for (const cut of vary(problem, best.cut)) {
      const plan = cutSteps(problem, cut, memoryBytes);
      const { seconds } = timeSchedule(problem, plan.steps, rates);
      if (seconds < bestSeconds) {
        best = plan;
        bestSeconds = seconds;
      }
    }
  }
  return best;
}

/** The cut with a single step. */
export function takeWhole({ m, n, k }) {
  return {
    firstRows: m,
    panelRows: m,
    lastRows: m,
    depth: k,
    aDepth: k,
    columns: n,
    restColumns: n,
  };
}

/** Candidate prologues: wait for all of B, go along K in steps, or go through columns of B. */
function listPrologues(rates, problem, whole) {
  const { m, n, k } = problem;
  const rows = roundRows(problem, m / USUAL_PANELS);
  const lastRows = Math.min(rows, roundTiles(problem, rows / USUAL_DRAIN));
  const plain = { ...whole, firstRows: rows, panelRows: rows, lastRows };
  const cuts = [plain, ...varyPanels(problem, plain)];
  // Kernels with splits, and staged copies, take all columns of B.
  const takesAll = problem.splitItemBytes || problem.staged;
  const depth = findDepth(problem, USUAL_DEPTH_STEPS);
  for (const share of depth < k ? WIDTHS : []) {
    const columns = roundColumns(problem, share * n);
    if (columns < n && takesAll) continue;
    const restColumns = roundColumns(problem, Math.max(1, n - columns) / 2);
    for (const firstRows of listHeights(problem, rates, columns)) {
      const cut = { ...plain, firstRows, depth, aDepth: depth, columns, restColumns };
      cuts.push(cut);
      // With all columns all copies are of whole rows.
      if (columns === n) cuts.push({ ...cut, aDepth: k });
    }
  }
  for (const count of takesAll ? [] : COLUMN_PARTS) {
    const columns = roundColumns(problem, n / count);
    for (const firstRows of columns < n ? sortUnique([m, rows]) : []) {
      cuts.push({ ...plain, firstRows, columns, restColumns: columns });
    }
  }
  return cuts;
}

/** Other numbers of panels, each of whole waves or of a part of one. */
function varyPanels(problem, cut) {
  const plain = cut.firstRows === cut.panelRows;
  const cuts = [];
  for (const rows of sortUnique(PANELS.map((count) => roundRows(problem, problem.m / count)))) {
    if (rows < problem.m && rows !== cut.panelRows) {
      const lastRows = Math.min(rows, roundTiles(problem, rows / USUAL_DRAIN));
      cuts.push({ ...cut, firstRows: plain ? rows : cut.firstRows, panelRows: rows, lastRows });
    }
  }
  return cuts;
}

/** Other sizes of the last panel. */
function varyDrain(problem, cut) {
  return DRAINS.map((smaller) => {
    const lastRows = roundTiles(problem, cut.panelRows / smaller);
    return { ...cut, lastRows: Math.min(cut.panelRows, lastRows) };
  });
}

/** Other numbers of steps of the prologue along K, and of its copies of A. */
function varyDepth(problem, cut) {
  if (cut.depth >= problem.k) return [];
  return DEPTH_STEPS.flatMap((count) => {
    const depth = Math.min(problem.k, findDepth(problem, count));
    return sortUnique([depth, problem.k]).map((aDepth) => ({ ...cut, depth, aDepth }));
  });
}

/** Length of K in each of about `count` steps. */
function findDepth(problem, count) {
  if (!problem.sumsInParts) return problem.k;
  return divideUp(problem.k, count * DEPTH_QUANTUM) * DEPTH_QUANTUM;
}

/** Candidate rows of a first panel that goes along K with this many columns.
 *
 * All rows, half of C, and the number at which kernels take as long as copying in the columns of B
 * and the rows of A.
 */
function listHeights(problem, rates, columns) {
  const { m, k } = problem;
  const some = problem.vary({ n: columns });
  const copySeconds = (k * problem.itemBytes) / rates.inBytesPerSecond;
  const waveSeconds = rates.waveSeconds + k * rates.depthSeconds;
  const rowSeconds = waveSeconds / some.waveRows - copySeconds;
  const heights = [m, Math.min(m, roundRows(some, (m * problem.n) / columns / 2))];
  if (rowSeconds * m > columns * copySeconds) {
    heights.push(Math.min(m, roundRows(some, (columns * copySeconds) / rowSeconds)));
  }
  return sortUnique(heights);
}

/** About this many rows, in whole waves if these are near. */
function roundRows(problem, rows) {
  return roundToWaves(problem, Math.max(1, roundEven(rows)), NEAR);
}

function roundTiles(problem, rows) {
  return Math.max(1, roundEven(rows / problem.tileM)) * problem.tileM;
}

/** About this many columns: all, or whole tiles. */
function roundColumns({ n, tileN }, columns) {
  const rounded = Math.max(1, roundEven(columns / tileN)) * tileN;
  return rounded + tileN <= n ? rounded : n;
}

function sortUnique(numbers) {
  return [...new Set(numbers)].sort((one, other) => one - other);
}
