/** Server-sent events, with the key in a header, which a browser's own EventSource cannot send. */

import { KeyMissing } from "./service.js";

const SOON_MS = 500;
const LATE_MS = 15_000;

/** Follow a path's events until `signal` is aborted, over new connections where one ends.
 *
 * `take(name, data)` gets each event; `tell(error)` is called with null once connected, and with the
 * reason when not. Without a key nothing is tried again.
 */
export async function follow(service, path, { signal, take, tell }) {
  let wait = SOON_MS;
  while (!signal.aborted) {
    try {
      const response = await service.call("GET", path, { signal });
      tell(null);
      wait = SOON_MS;
      await readEvents(response.body, take);
    } catch (error) {
      if (signal.aborted) return;
      tell(error);
      if (error instanceof KeyMissing) return;
      wait = Math.min(LATE_MS, wait * 2);
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
