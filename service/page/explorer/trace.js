/** The timeline as a trace for Perfetto (ui.perfetto.dev): predicted and measured in one file.
 *
 * In Chrome's JSON format. The prediction is one process, or one for each of several GPUs and the
 * CPU; the measurement is another. Each queue is a thread.
 */

import { nameGpu } from "./team_words.js";
import { nameSpan } from "./timeline.js";

/** The text of the trace.
 *
 * `measured`: {f, gpu_seconds, cpu_seconds} of a sweep or a job; undefined if there is neither.
 */
export function renderTrace(plan, measured) {
  const { machine } = plan;
  const processes = listProcesses(plan);
  const traceEvents = processes.flatMap(([name, own], index) =>
    listPredicted(index + 1, name, own),
  );
  if (measured !== undefined)
    traceEvents.push(...listMeasured(processes.length + 1, measured, machine));
  const { m, n, k, dtype, memory } = plan.problem;
  const otherData = { product: `${m}×${n}×${k} ${dtype}, ${memory} memory`, machine };
  return JSON.stringify({ displayTimeUnit: "ms", otherData, traceEvents });
}

/** The predicted processes, [name, queues]. */
function listProcesses(plan) {
  const { queues } = plan;
  const text = `predicted, F = ${plan.f}`;
  if (plan.gpuParts.length < 2) return [[text, queues]];
  const named = [...plan.gpuParts.map((part) => [nameGpu(part), part]), ["CPU", null]];
  return named
    .map(([name, part]) => [`${name}, ${text}`, queues.filter((queue) => queue.part === part)])
    .filter(([, own]) => own.length > 0);
}

function listPredicted(process, name, queues) {
  const threads = queues.flatMap(({ kind, spans }, index) => {
    const thread = index + 1;
    const events = spans.map((span) => ({
      ...placeEvent(process, thread, span.begin_seconds, span.end_seconds),
      name: nameSpan(kind, span),
      cat: kind,
    }));
    return [...nameThread(process, thread, kind), ...events];
  });
  return [nameProcess(process, name), ...threads];
}

function listMeasured(process, measured, machine) {
  const parts = [
    ["GPU part", measured.gpu_seconds],
    ["CPU part", measured.cpu_seconds],
  ];
  const threads = parts.flatMap(([name, seconds], index) => {
    const thread = index + 1;
    const event = { ...placeEvent(process, thread, 0, seconds), name, cat: "measured" };
    return [...nameThread(process, thread, name), ...(seconds > 0 ? [event] : [])];
  });
  return [nameProcess(process, `measured on ${machine}, F = ${measured.f}`), ...threads];
}

function nameProcess(process, name) {
  return { ph: "M", pid: process, name: "process_name", args: { name } };
}

function nameThread(process, thread, name) {
  const at = { ph: "M", pid: process, tid: thread };
  return [
    { ...at, name: "thread_name", args: { name } },
    { ...at, name: "thread_sort_index", args: { sort_index: thread } },
  ];
}

/** An event with its begin and length, in microseconds. */
function placeEvent(process, thread, begin, end) {
  return { ph: "X", pid: process, tid: thread, ts: begin * 1e6, dur: (end - begin) * 1e6 };
}
