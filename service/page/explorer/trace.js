/** The schedule as a trace for Perfetto (ui.perfetto.dev): predicted and measured in one file.
 *
 * Chrome's JSON format: "X" events with begin and length in microseconds, one process for what is
 * predicted, of several GPUs one for each, and one for what was measured.
 */

import { nameGpu } from "./team_words.js";
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
  const processes = listProcesses(plan, queues);
  processes.forEach(([text, own], number) => {
    const process = number + 1;
    name(process, text);
    own.forEach(({ kind, spans }, index) => {
      lane(process, index + 1, kind);
      for (const span of spans) {
        events.push({
          ...place(process, index + 1, span.begin, span.end),
          name: nameSpan(kind, span),
          cat: kind,
        });
      }
    });
  });
  if (measured !== undefined) {
    const last = processes.length + 1;
    name(last, `measured on ${machine}, F = ${measured.f}`);
    [
      ["GPU part", measured.gpu_seconds],
      ["CPU part", measured.cpu_seconds],
    ].forEach(([part, seconds], index) => {
      lane(last, index + 1, part);
      if (seconds > 0)
        events.push({ ...place(last, index + 1, 0, seconds), name: part, cat: "measured" });
    });
  }
  const { m, n, k, dtype, memory } = plan.problem;
  const otherData = { product: `${m}×${n}×${k} ${dtype}, ${memory} memory`, machine };
  return JSON.stringify({ displayTimeUnit: "ms", otherData, traceEvents: events });
}

/** Names of processes with their queues: one for all, or for each of several GPUs and the CPU. */
function listProcesses(plan, queues) {
  const text = `predicted, F = ${plan.f}`;
  if (plan.gpuParts.length < 2) return [[text, queues]];
  const named = [...plan.gpuParts.map((part) => [nameGpu(plan, part), part]), ["CPU", null]];
  return named
    .map(([name, part]) => [`${name}, ${text}`, queues.filter((queue) => queue.part === part)])
    .filter(([, own]) => own.length > 0);
}

function place(process, thread, begin, end) {
  return { ph: "X", pid: process, tid: thread, ts: begin * 1e6, dur: (end - begin) * 1e6 };
}
