/** A plan as calls that others can repeat: by curl, by the command, from Python. */

import { makeButton } from "../controls.js";
import { make } from "../dom.js";
import { isMeasured } from "../machines.js";
import { writeQuery } from "./query.js";

/** Where a service is, for a page that has none. */
const USUAL_SERVICE = "http://localhost:8000/";

/** The calls, [name, text]: none for a recorded machine, curl only for a described GPU. */
export function listCalls(state, gpus) {
  if (isMeasured(state.device)) return [];
  const query = writeQuery(state, gpus);
  const page = location.origin === "null" ? USUAL_SERVICE : new URL(".", location.href).href;
  const curl = ["curl", `curl '${page}v1/plan?${query}'`];
  if (state.device === "typed") return [curl];
  const { m, n, k, ...named } = Object.fromEntries(new URLSearchParams(query));
  const options = Object.entries(named);
  const quote = (text) => (/^[\w.:-]+$/.test(text) ? text : `"${text}"`);
  const flags = options.map(([name, text]) => ` --${name.replaceAll("_", "-")} ${quote(text)}`);
  const isNumber = (name, text) => name !== "devices" && text !== "" && !Number.isNaN(Number(text));
  const write = ([name, text]) => `, ${name}=${isNumber(name, text) ? text : JSON.stringify(text)}`;
  return [
    curl,
    ["command", `wavetrim plan ${m} ${n} ${k}${flags.join("")}`],
    ["Python", `import wavetrim\nwavetrim.plan(${m}, ${n}, ${k}${options.map(write).join("")})`],
  ];
}

/** The calls, folded, each with a button that copies it if the browser allows that. */
export function makeCalls(calls) {
  const blocks = calls.flatMap(([name, text]) => {
    const copy = makeButton(`Copy as ${name}`, () => navigator.clipboard.writeText(text));
    copy.hidden = !navigator.clipboard; // a browser has it on this machine and by https only
    return [make("pre", { className: "call", tabIndex: 0, textContent: text }), copy];
  });
  const summary = make("summary", { textContent: "Copy as curl, command, Python" });
  const open = document.getElementById("calls")?.open; // those of another plan were open
  return calls.length > 0 ? make("details", { id: "calls", open }, summary, ...blocks) : null;
}
