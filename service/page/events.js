/** Server-sent events with the API key in a header, which a browser's EventSource cannot send. */

import { KeyMissing } from "./service.js";

/** Waits before another connection is tried: the first, and the longest after doubling it. */
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;

/** Follow a path's events until `signal` is aborted; a connection that ends is opened again.
 *
 * `take(name, data)` gets each event. `tell(error)` is called with null once connected, and with
 * the reason if that failed. If the key is missing, it is not tried again.
 */
export async function follow(service, path, { signal, take, tell }) {
  let wait = FIRST_WAIT_MS;
  while (!signal.aborted) {
    try {
      const response = await service.call("GET", path, { signal });
      tell(null);
      wait = FIRST_WAIT_MS;
      await readEvents(response.body, take);
    } catch (error) {
      if (signal.aborted) return;
      tell(error);
      if (error instanceof KeyMissing) return;
      wait = Math.min(LONGEST_WAIT_MS, wait * 2);
    }
    await new Promise((done) => setTimeout(done, wait));
  }
}

/** Read a stream of events to its end. */
async function readEvents(body, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
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
