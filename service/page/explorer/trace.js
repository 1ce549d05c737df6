/** The schedule as a trace for Perfetto (ui.perfetto.dev): predicted and measured in one file.
 *
 * Chrome's JSON format: "X" events with begin and length in microseconds, one process for what is
 * predicted and one for what was measured.
 */

import { nameSpan } from "./timeline.js";

/** The trace's text; `measured` is a stored sweep's {f, gpu_seconds, cpu_seconds}, or undefined. */
export function renderTrace(plan, queues, measured, machine) {
  const events = [];
  const name = (process, text) => {
    events.push({ ph: "M", pid: process, name: "process_name", args: { name: text } });
  };
  const lane = (process, thread, text) => {
    const at = { ph: "M", pid: process, tid: thread };
    events.push({ ...at, name: "thread_name", args: { name: text } });
    events.push({ ...at, name: "thread_sort_index", args: { sort_index: thread } });
  };
  name(1, `predicted, F = ${plan.f}`);
  queues.forEach(({ name: queue, spans }, index) => {
    lane(1, index + 1, queue);
    for (const span of spans) {
      events.push({
        ...place(1, index + 1, span.begin, span.end),
        name: nameSpan(queue, span),
        cat: queue,
      });
    }
  });
  if (measured !== undefined) {
    name(2, `measured on ${machine}, F = ${measured.f}`);
    [
      ["GPU part", measured.gpu_seconds],
      ["CPU part", measured.cpu_seconds],
    ].forEach(([part, seconds], index) => {
      lane(2, index + 1, part);
      if (seconds > 0)
        events.push({ ...place(2, index + 1, 0, seconds), name: part, cat: "measured" });
    });
  }
  const { m, n, k, dtype, memory } = plan.problem;
  const otherData = { product: `${m}×${n}×${k} ${dtype}, ${memory} memory`, machine };
  return JSON.stringify({ displayTimeUnit: "ms", otherData, traceEvents: events });
}

function place(process, thread, begin, end) {
  return { ph: "X", pid: process, tid: thread, ts: begin * 1e6, dur: (end - begin) * 1e6 };
}
