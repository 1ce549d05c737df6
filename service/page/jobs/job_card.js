/** One job: its state, the rows that each side has computed, predicted and measured times. */

import { makeButton } from "../controls.js";
import { make } from "../dom.js";
import { makeRow, makeScrollable, makeTable } from "../table.js";
import { showAge, showSeconds, showSpeed, showUntil, showWhole } from "../units.js";
import { drawRowsBar, findShares, tellShares } from "./rows_bar.js";

const NONE = "–";

/** The card of a job, which `update` changes in place. */
export class JobCard {
  /** `actions` are {cancel, fetch, explore}, each called with the job. */
  constructor(job, actions) {
    this.state = make("span", { className: "chip" });
    this.when = make("span", { className: "caption" });
    this.bar = make("div", { className: "bar" });
    this.told = make("p", { className: "caption told" });
    this.ends = make("p", { className: "caption told" });
    this.product = make("p", { className: "product", textContent: "…" });
    this.problem = make("p", { className: "problem" });
    const short = `job ${job.id.slice(0, 8)}`;
    this.table = makeTable({
      caption: `${short}, predicted and measured`,
      isCaptionHidden: true,
      className: "comparison",
      heads: ["", "predicted", "measured"],
    });
    this.compared = makeScrollable(`${short}, predicted and measured`, this.table);
    const button = (text, run) =>
      makeButton(text, () => run(this.job), { "aria-label": `${text}: ${short}` });
    this.cancel = button("Cancel", actions.cancel);
    this.fetch = button("Download", actions.fetch);
    this.explore = button("See the plan", actions.explore);
    const copy = button("Copy id", ({ id }) => navigator.clipboard.writeText(id));
    copy.hidden = !navigator.clipboard; // a browser has it on this machine and by https only
    const title = make("a", {
      href: `#view=jobs&job=${job.id}`,
      textContent: job.id,
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
      this.ends,
      this.compared,
      this.problem,
      make("p", { className: "row" }, this.explore, this.fetch, this.cancel, copy),
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
    this.table.tBodies[0].replaceChildren(...compare(job));
    this.compared.hidden = job.plan === null;
    this.problem.hidden = job.error === null;
    this.problem.textContent = job.error?.message ?? "";
    this.cancel.hidden = job.finished_at !== null || job.cancel_requested;
    this.fetch.hidden = job.result === null;
    this.explore.hidden = job.plan === null;
    this.age();
  }

  /** Show what is multiplied: {m, n, k, dtype}, or null if an operand was deleted. */
  name(product) {
    this.product.textContent = product ? tellProduct(product) : "A or B was deleted.";
  }

  /** Show how long ago the job was posted, and in how long it will end. */
  age() {
    const owner = this.job.owner ? ` by ${this.job.owner}` : "";
    this.when.textContent = `posted ${showAge(this.job.created_at)}${owner}`;
    this.ends.textContent = this.job.expected ? tellExpected(this.job.expected) : "";
  }

  /** Mark the card, or not, as the job that the address names. */
  select(isSelected) {
    this.element.classList.toggle("selected", isSelected);
  }
}

/** When a job will end, between which times it does so 9 times in 10, and why then. */
export function tellExpected({ ends_at, ends_between, reason }) {
  const [first, last] = ends_between.map(showUntil);
  const why = `${reason[0].toUpperCase()}${reason.slice(1).replace(/\.$/, "")}.`;
  return `Ends in about ${showUntil(ends_at)} (${first} to ${last}, 9 times in 10). ${why}`;
}

function tellProduct({ m, n, k, dtype }) {
  return `${[m, n, k].map(showWhole).join(" × ")} ${dtype}`;
}

/** Rows of the table: F, both parts, the product, its speed, and the wait. */
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
    ["Product", seconds(predicted.total_seconds), seconds(was.total_seconds)],
    ["Measured vs predicted", "", timings ? showSpeed(was.total_seconds / predicted.total_seconds) : NONE],
    ["Wait for devices", "", seconds(was.device_wait_seconds)],
  ];
  return rows.map(([name, ...values]) => makeRow(name, values));
}

function showRows(rows) {
  return rows === null || rows === undefined ? NONE : showWhole(rows);
}

function tellJob(job, shares) {
  const parts = [];
  if (job.state === "queued") parts.push(`waits, priority ${job.priority}`);
  if (job.state === "cancelled" && !shares) parts.push("cancelled before it started");
  if (shares) parts.push(tellShares(shares));
  if (job.plan?.kernel) parts.push(`${job.plan.kernel} ${job.plan.tile.replaceAll("x", "×")}`);
  if (job.attempts > 1) parts.push(`try ${job.attempts}`);
  if (job.verification) parts.push(job.verification.passed ? "verified" : "found wrong");
  return parts.join(" · ");
}
