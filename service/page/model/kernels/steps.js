/** The steps of a product: its launches in order (kernels/schedule/steps.py).
 *
 * They are made by a cut, {firstRows, panelRows, lastRows, depth, columns, restColumns}. The rows are
 * those of the first panel, of the panels after it, and of the last. In the prologue, `depth` is the
 * part of K at a time, `columns` those of B with which it goes along K, and `restColumns` those that
 * follow at a time.
 */

import { divideUp } from "../arithmetic.js";
import { fitBuffers } from "./buffers.js";
import { cutRows } from "./panels.js";

/** The steps of a product by one cut; panels are smaller if memory is short. */
export function cutSteps(problem, cut, memoryBytes) {
  const buffers = fitBuffers(problem, cut.panelRows, cut.firstRows, memoryBytes);
  return { cut, steps: listSteps(problem, cut, buffers), buffers };
}

function listSteps(problem, cut, buffers) {
  const firstRows = Math.min(cut.firstRows, buffers.rows);
  const panels = cutRows(problem, firstRows, Math.min(cut.panelRows, buffers.rows), cut.lastRows);
  return assignSlots(problem, buffers, listParts(problem, buffers, panels, cut));
}

/** Steps before they have buffers: loops over groups of columns, panels of rows, then K.
 *
 * Ranges are [start, stop]. `leads`: whether a step is in the first panel of its group of columns.
 */
function listParts(problem, buffers, panels, cut) {
  const parts = [];
  for (const group of divide(problem.n, buffers.columns)) {
    for (const rows of panels) {
      const leads = rows[0] === 0;
      const whole = group[1] - group[0] === problem.n && buffers.depth === problem.k;
      if (leads && whole) {
        listPrologue(parts, problem, rows, cut);
        continue;
      }
      const length = leads ? Math.min(buffers.depth, cut.depth) : buffers.depth;
      for (const depth of divide(problem.k, length)) {
        parts.push({ rows, group, columns: group, depth, aDepth: depth, leads });
      }
    }
  }
  return parts;
}

/** The prologue, if all of B fits: some columns along K in steps, then the other columns. */
function listPrologue(parts, problem, rows, cut) {
  const group = [0, problem.n];
  let loaded = 0;
  for (const depth of divide(problem.k, cut.depth)) {
    const until = Math.min(problem.k, divideUp(depth[1], cut.aDepth) * cut.aDepth);
    const columns = [0, cut.columns];
    parts.push({ rows, group, columns, depth, aDepth: [loaded, until], leads: true });
    loaded = until;
  }
  for (const columns of divide(problem.n, cut.restColumns, cut.columns)) {
    const depth = [0, problem.k];
    parts.push({ rows, group, columns, depth, aDepth: [0, 0], leads: true });
  }
}

/** Assigns the buffers of one operand in turn, and tracks the last step that uses each. */
class Fills {
  constructor(slots) {
    this.slots = slots;
    this.column = this.row = this.depth = -1;
    this.lastUsers = [];
  }

  /** The last step that needs what a step's buffer held before; -1 for none.
   *
   * Two steps have the same content if it begins at the same column, row and depth.
   */
  take(index, column, row, depth) {
    if (column !== this.column || row !== this.row || depth !== this.depth) {
      Object.assign(this, { column, row, depth });
      this.lastUsers.push(index);
    } else {
      this.lastUsers[this.lastUsers.length - 1] = index;
    }
    const earlier = this.lastUsers.length - 1 - this.slots;
    return earlier >= 0 ? this.lastUsers[earlier] : -1;
  }
}

/** Each step with the steps that it waits for.
 *
 * Copies in wait for the kernel of `follows`, the kernel for the copy out of `cFollows`.
 */
function assignSlots(problem, buffers, parts) {
  const cutsK = buffers.depth < problem.k;
  const a = new Fills(buffers.aSlots);
  const b = new Fills(buffers.bSlots);
  const c = new Fills(buffers.cSlots);
  return parts.map((part, index) => {
    const { rows, group, columns, depth } = part;
    const aFree = a.take(index, group[0], rows[0], cutsK ? depth[0] : 0);
    const bFree = b.take(index, group[0], cutsK ? rows[0] : 0, cutsK ? depth[0] : 0);
    const cFree = c.take(index, group[0], rows[0], 0);
    return {
      firstRow: rows[0],
      rows: rows[1] - rows[0],
      firstColumn: columns[0],
      columns: columns[1] - columns[0],
      depth: depth[1] - depth[0],
      aDepth: Math.max(0, part.aDepth[1] - part.aDepth[0]),
      loadsB: cutsK || part.leads,
      first: depth[0] === 0,
      last: depth[1] === problem.k,
      follows: Math.max(aFree, bFree),
      cFollows: cFree,
    };
  });
}

/** Ranges of at most `size` that cover `first`…length. */
function divide(length, size, first = 0) {
  const ranges = [];
  for (let start = first; start < length; start += size) {
    ranges.push([start, Math.min(start + size, length)]);
  }
  return ranges;
}
