/** Several GPUs that share a product, a team (scheduler/planning/team.py).
 *
 * A team takes as long as its slowest member. Its GPUs divide the rows, or the columns: then each
 * of them needs all rows of A and its columns of B alone.
 */

import { divideUp } from "../arithmetic.js";
import { splitRows } from "./split.js";

/** Rows of C → seconds on several GPUs, a team.
 *
 * `members`: a curve for each GPU. `even`: whether all are alike, so that they take equal parts.
 * `exchanges`: whether they exchange parts of B. `columns`: [start, stop] of each GPU's columns of
 * C; empty if they divide the rows.
 */
export class TeamCurve {
  constructor({ members, m, even, exchanges = false, columns = [] }) {
    Object.assign(this, { members, m, even, exchanges, columns });
    this.different = [...new Set(members)];
  }

  vary(changes) {
    return new TeamCurve({ ...this, ...changes });
  }

  /** Share of the time in which copies are under way, 0…1: that of the busiest member. */
  get copyingShare() {
    return Math.max(...this.different.map((member) => member.copyingShare));
  }

  /** Rows of each member: consecutive ones, or all of them where columns are divided. */
  divide(rows) {
    const { members } = this;
    if (this.columns.length > 0) return members.map(() => rows);
    if (!this.even) return splitRows(rows, members);
    const part = findEvenPart(rows, members.length, members[0].problem.tileM);
    return members.map((_, number) => Math.max(0, Math.min(part, rows - number * part)));
  }

  /** Seconds for `rows` rows: 0 without rows, and never less for more rows. */
  seconds(rows) {
    if (this.even) {
      const [part] = this.divide(rows);
      return Math.max(...this.different.map((member) => member.seconds(part)));
    }
    return Math.max(...this.askEach(rows, (member, share) => member.seconds(share)));
  }

  /** Rough number of rows that take `seconds`. */
  estimateRows(seconds) {
    const each = this.members.map((member) => member.estimateRows(seconds));
    return this.columns.length > 0 ? Math.min(...each) : each.reduce((sum, one) => sum + one, 0);
  }

  /** Seconds of the kernels alone, in one launch on each GPU; about that if the GPUs differ. */
  kernelSeconds(rows) {
    return this.joinKernels(rows, (member, share) => member.kernelSeconds(share));
  }

  /** Lower bound of that in all schedules, of one launch or of several on each GPU. */
  findLeastKernelSeconds(rows) {
    return this.joinKernels(rows, (member, share) => member.findLeastKernelSeconds(share));
  }

  joinKernels(rows, ask) {
    if (!this.even && rows > 0) {
      return 1 / this.members.reduce((sum, member) => sum + 1 / ask(member, rows), 0);
    }
    return Math.max(...this.askEach(rows, ask));
  }

  /** Lower bound for all schedules. */
  findLeastSeconds(rows) {
    const least = this.askEach(rows, (member, share) => member.findLeastSeconds(share));
    // Members that differ may have other rows in the best schedules.
    return this.even ? Math.max(...least) : Math.min(...least);
  }

  /** What `ask(member, rows)` gives for each member and its rows. */
  askEach(rows, ask) {
    const shares = this.divide(rows);
    return this.members.map((member, index) => ask(member, shares[index]));
  }
}

/** The curve of each GPU; `side` is the curve of one GPU or of a team. */
export function listMembers(side) {
  return side instanceof TeamCurve ? side.members : [side];
}

/** The part of C of one GPU in a plan.
 *
 * `position`: its position among the machine's GPUs. `rows` and `columns`: its [start, stop].
 */
class GpuPart {
  constructor(position, rows, columns, curve) {
    Object.assign(this, { position, rows, columns, curve });
    this.rowCount = rows[1] - rows[0];
    this.columnCount = columns[1] - columns[0];
  }

  /** Predicted seconds. */
  get seconds() {
    return this.curve.seconds(this.rowCount);
  }

  /** Waves of its kernels. */
  get waves() {
    return this.curve.grid.countWaves(this.rowCount);
  }

  /** Filled share of its last wave. */
  get tailUtilization() {
    return this.curve.grid.findTailUtilization(this.rowCount);
  }

  /** Whether the last wave is split along K, so that it costs about its filled share. */
  get tailSplit() {
    const { grid, splitSteps } = this.curve;
    return splitSteps !== null && grid.countSplitWaves(this.rowCount, splitSteps) < this.waves;
  }
}

/** The parts of the GPUs that have rows, from the first row or column on.
 *
 * `side`: the curve of one GPU or of a team. `shares`: rows of each GPU.
 */
export function listParts(side, positions, shares) {
  const members = listMembers(side);
  const { columns = [] } = side;
  if (columns.length > 0) {
    return members.map(
      (one, index) => new GpuPart(positions[index], [0, shares[index]], columns[index], one),
    );
  }
  let start = 0;
  return members.flatMap((curve, index) => {
    const rows = [start, start + shares[index]];
    start = rows[1];
    return shares[index] > 0
      ? [new GpuPart(positions[index], rows, [0, curve.problem.n], curve)]
      : [];
  });
}

/** The curves among which rows are divided: GPUs that are alike divide theirs evenly. */
export function listDividing(side) {
  return side instanceof TeamCurve && !side.even ? side.members : [side];
}

/** Rows or columns of the first of `count` equal parts: whole tiles, which take no more time. */
export function findEvenPart(size, count, tile) {
  return Math.min(size, divideUp(divideUp(size, count), tile) * tile);
}

/** How many GPUs to try next: twice as many while that gains, then numbers between those tried.
 *
 * `seconds`: the time with each number tried so far, of which `count` is the best. Null if no other
 * number up to `most` can be better. `besideCpu`: whether the CPU has rows with that number. Two
 * GPUs beside which it has none may gain nothing, and four much.
 */
export function findNextCount(seconds, count, most, besideCpu = false) {
  const numbers = [...seconds.keys()];
  const last = Math.max(...numbers);
  const more = numbers.filter((one) => one > count);
  if (last < most && more.length <= (besideCpu ? 1 : 0)) return Math.min(2 * last, most);
  let tried = Math.floor((count + Math.min(...more, most)) / 2);
  if (more.length > 0 && tried > count) return tried;
  const fewer = Math.max(...numbers.filter((one) => one < count));
  tried = Math.floor((fewer + count) / 2);
  // Speed grows at most as the number of GPUs does. Nearer numbers differ by a few per cent.
  const isFar = 4 * (count - fewer) > count;
  const canGain = isFar && seconds.get(fewer) * fewer < seconds.get(count) * tried;
  return canGain && tried > fewer ? tried : null;
}
