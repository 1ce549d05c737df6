/** Server-sent events with the API key in a header, which a browser's EventSource cannot send. */

import { KeyMissing } from "./service.js";

/** Waits before a new connection: the first, and the longest; each is twice the one before. */
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;

/** After this silence a connection is dead: the service sends something every 15 s. */
const SILENT_MS = 45_000;

/** Follow a path's events until `signal` is aborted.
 *
 * A connection that ends is opened again, and so is one that is silent for too long. `take(name,
 * data)` gets each event. `tell(error)` is called with null once connected, and with the reason if
 * that failed. If the key is missing, it is not tried again.
 */
export async function follow(service, path, { signal, take, tell }) {
  let wait = FIRST_WAIT_MS;
  while (!signal.aborted) {
    try {
      await connect(service, path, {
        signal,
        take,
        tell: () => {
          tell(null);
          wait = FIRST_WAIT_MS;
        },
      });
    } catch (error) {
      if (signal.aborted) return;
      tell(error);
      if (error instanceof KeyMissing) return;
      wait = Math.min(LONGEST_WAIT_MS, wait * 2);
    }
    await new Promise((done) => setTimeout(done, wait));
  }
}

/** Follow events over one connection until it ends; throws an Error if nothing comes any more. */
async function connect(service, path, { signal, take, tell }) {
  const silence = new AbortController();
  let timer = null;
  const hear = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(new Error("The service is silent.")), SILENT_MS);
  };
  hear();
  try {
    const either = AbortSignal.any([signal, silence.signal]);
    const response = await service.call("GET", path, { signal: either });
    tell();
    await readEvents(response.body, { take, hear });
  } finally {
    clearTimeout(timer);
  }
}

/** Read a stream of events to its end; `hear()` is called for whatever comes. */
async function readEvents(body, { take, hear }) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    hear();
    const messages = (rest + value).split("\n\n");
    rest = messages.pop();
    for (const message of messages) {
      const fields = Object.fromEntries(message.split("\n").map(splitField));
      if (fields.data !== undefined) take(fields.event ?? "message", JSON.parse(fields.data));
    }
  }
}

function splitField(line) {
  const [name, ...value] = line.split(": ");
  return [name, value.join(": ")];
}
