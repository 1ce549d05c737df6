/** The service that sent this page, if one did. The API key is kept for this tab only. */

const KEY = "wavetrim.key";

/** Limit for an answer; a request waits for a job's end half as long. */
const ANSWER_MS = 60_000;

/** Keys that can be sent: browsers refuse other characters in a header, services longer keys. */
const SENDABLE = /^[\x21-\x7e]{1,4096}$/;

/** Calls of the service's HTTP API.
 *
 * `present`: whether there is a service. `docs`: whether it describes its API at /docs.
 */
export class Service {
  constructor() {
    const { home, docs } = document.documentElement.dataset;
    this.present = home === "service";
    this.docs = this.present && docs === "on";
  }

  /** Keep a key until the tab is closed, or the service refuses it. */
  setKey(key) {
    sessionStorage.setItem(KEY, key.trim());
  }

  /** The JSON document at a path. */
  async get(path) {
    const signal = AbortSignal.timeout(ANSWER_MS);
    return (await this.call("GET", path, { signal })).json();
  }

  /** The JSON document that answers a posted one. */
  async post(path, document) {
    const headers = { "Content-Type": "application/json" };
    const answer = await this.call("POST", path, { headers, body: JSON.stringify(document) });
    return answer.json();
  }

  /** The response to a call.
   *
   * Throws `KeyMissing` if a key is needed, `Refusal` if a field has a value that is not accepted,
   * and an `Error` with the service's message, and `status`, for any other status.
   */
  async call(method, path, { headers = {}, body = null, signal = null } = {}) {
    const key = sessionStorage.getItem(KEY);
    if (key !== null && !SENDABLE.test(key)) {
      sessionStorage.removeItem(KEY);
      throw new KeyMissing(true);
    }
    const all = key ? { ...headers, Authorization: `Bearer ${key}` } : headers;
    const common = { credentials: "omit", cache: "no-store" };
    const response = await fetch(path, { method, headers: all, body, signal, ...common });
    if (response.ok) return response;
    if (response.status === 401) {
      // The key is not sent again: each refusal would replace the form in which the user types
      // another one. A key that was entered meanwhile stays.
      if (sessionStorage.getItem(KEY) === key) sessionStorage.removeItem(KEY);
      throw new KeyMissing(key !== null);
    }
    const { status } = response;
    const problem = await readProblem(response);
    if (status === 422 && problem.field)
      throw new Refusal(problem.field, problem.value, problem.limit);
    const detail = problem.detail ?? `The service answers with an error (${status}).`;
    throw Object.assign(new Error(detail), { status });
  }
}

async function readProblem(response) {
  try {
    return await response.json();
  } catch {
    return {}; // no problem document: something else answered, such as a proxy
  }
}

/** An error for what cannot be planned: the field, its value, and what would be accepted. */
export class Refusal extends Error {
  constructor(field, value, limit) {
    super(`${field} is ${JSON.stringify(value)}; it must be ${limit}`);
    this.field = field;
  }
}

/** The service asks for a key; `refused`: whether one was sent. */
export class KeyMissing extends Error {
  constructor(refused) {
    super("The service asks for a key.");
    this.refused = refused;
  }
}
