/** One job: its state, the rows of both sides, and what was predicted beside what was measured. */

import { make } from "../dom.js";
import { showAge, showNumber, showSeconds, showWhole } from "../units.js";
import { drawRowsBar, findShares, tellShares } from "./rows_bar.js";

const NONE = "–";

/** A card that stays in its place while its job goes on. */
export class JobCard {
  /** `actions` are {cancel, fetch, explore}, each called with the job. */
  constructor(job, actions) {
    this.state = make("span", { className: "chip" });
    this.when = make("span", { className: "caption" });
    this.bar = make("div", { className: "bar" });
    this.told = make("p", { className: "caption" });
    this.product = make("p", { className: "product", textContent: "…" });
    this.table = make("tbody");
    this.problem = make("p", { className: "problem" });
    const short = `job ${job.id.slice(0, 8)}`;
    const button = (text, run) =>
      make("button", {
        type: "button",
        className: "quiet",
        textContent: text,
        "aria-label": `${text}: ${short}`,
        onclick: () => run(this.job),
      });
    this.cancel = button("Cancel", actions.cancel);
    this.fetch = button("Download", actions.fetch);
    this.explore = button("See the plan", actions.explore);
    const title = make("a", {
      href: `#view=jobs&job=${job.id}`,
      textContent: job.id.slice(0, 8),
      title: job.id,
      id: `job-${job.id}`,
    });
    this.element = make(
      "li",
      { className: "panel job", "data-job": job.id, "aria-labelledby": title.id },
      make("div", { className: "head" }, make("h3", {}, title), this.state, this.when),
      this.product,
      this.bar,
      this.told,
      makeComparison(this.table, `${short}, predicted and measured`),
      this.problem,
      make("p", { className: "row" }, this.explore, this.fetch, this.cancel),
    );
    this.update(job);
  }

  /** Show the job as it is now. */
  update(job) {
    this.job = job;
    const shares = findShares(job);
    this.element.dataset.state = job.state;
    this.state.textContent = job.cancel_requested && !job.finished_at ? "cancelling" : job.state;
    this.state.className = `chip ${job.state}`;
    this.bar.replaceChildren(...(shares ? [drawRowsBar(shares)] : []));
    this.told.textContent = tellJob(job, shares);
    this.table.replaceChildren(...compare(job));
    this.table.parentElement.hidden = job.plan === null;
    this.problem.hidden = job.error === null;
    this.problem.textContent = job.error ? `${job.error.kind}: ${job.error.message}` : "";
    this.cancel.hidden = job.finished_at !== null || job.cancel_requested;
    this.fetch.hidden = job.result === null;
    this.explore.hidden = job.plan === null;
    this.age();
  }

  /** Tell what is multiplied: {m, n, k, dtype}, or null where an operand is gone. */
  name(product) {
    const { m, n, k, dtype } = product ?? {};
    const sizes = [m, n, k].map((size) => (product ? showWhole(size) : ""));
    this.product.textContent = product ? `${sizes.join(" × ")} ${dtype}` : "Its operands are gone.";
  }

  /** Show how long ago it was posted. */
  age() {
    const owner = this.job.owner ? ` by ${this.job.owner}` : "";
    this.when.textContent = `posted ${showAge(this.job.created_at)}${owner}`;
  }

  /** Whether it is the job that the address names. */
  select(isSelected) {
    this.element.classList.toggle("selected", isSelected);
  }
}

function makeComparison(body, caption) {
  const heads = ["", "predicted", "measured"].map((text) =>
    make(text ? "th" : "td", { scope: text ? "col" : null, textContent: text }),
  );
  return make(
    "table",
    { className: "comparison" },
    make("caption", { className: "sr", textContent: caption }),
    make("thead", {}, make("tr", {}, ...heads)),
    body,
  );
}

/** Rows of the table: F, both parts, and all of it. */
function compare({ plan, timings }) {
  if (plan === null) return [];
  const { predicted } = plan;
  const was = timings ?? {};
  const seconds = (value) => (value === null || value === undefined ? NONE : showSeconds(value));
  const parts = [
    ["GPU's part", seconds(predicted.gpu_seconds), seconds(was.gpu_seconds)],
    ["CPU's part", seconds(predicted.cpu_seconds), seconds(was.cpu_seconds)],
  ];
  const rows = [
    ["F, rows of the CPU", showWhole(plan.f), showRows(was.f_actual)],
    ...(plan.kernel === null ? [] : parts),
    ["Product", seconds(predicted.total_seconds), tellTotal(predicted, was, seconds)],
    ["Wait for devices", "", seconds(was.device_wait_seconds)],
  ];
  return rows.map(([name, ...values]) =>
    make(
      "tr",
      {},
      make("th", { scope: "row", textContent: name }),
      ...values.map((value) => make("td", { textContent: value })),
    ),
  );
}

function showRows(rows) {
  return rows === null || rows === undefined ? NONE : showWhole(rows);
}

function tellTotal({ total_seconds: predicted }, { total_seconds: total }, seconds) {
  if (total === undefined) return NONE;
  const off = 100 * (total / predicted - 1);
  return `${seconds(total)} (${off >= 0 ? "+" : "−"}${showNumber(Math.abs(off))}%)`;
}

function tellJob(job, shares) {
  const parts = [];
  if (job.state === "queued") parts.push(`waits, priority ${job.priority}`);
  if (job.state === "cancelled" && !shares) parts.push("before it began");
  if (shares) parts.push(tellShares(shares));
  if (job.plan?.kernel) parts.push(`${job.plan.kernel} ${job.plan.tile.replaceAll("x", "×")}`);
  if (job.attempts > 1) parts.push(`try ${job.attempts}`);
  if (job.verification) parts.push(job.verification.passed ? "verified" : "found wrong");
  return parts.join(" · ");
}
