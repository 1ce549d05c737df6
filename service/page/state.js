/** The state: what the page shows. All of it is in the part of the address after #. */

import { CATALOG } from "./catalog.js";

const { maxSize, itemBytes, memories, accuracies } = CATALOG;

const SIZE = { least: 1, most: maxSize };

/** Fields by name: `unset`, the default value, and what else is accepted. */
const FIELDS = {
  view: { unset: "explorer" },
  m: { unset: 4096, ...SIZE },
  n: { unset: 4096, ...SIZE },
  k: { unset: 4096, ...SIZE },
  dtype: { unset: "float64", choices: Object.keys(itemBytes) },
  memory: { unset: "pageable", choices: memories },
  kernel: { unset: "auto", text: true },
  tile: { unset: null, text: true },
  accuracy: { unset: null, choices: accuracies },
  sms: { unset: null, least: 1, most: 10_000 },
  device: { unset: null, text: true },
  gpus: { unset: null, least: 1, most: 8 },
  threads: { unset: null, least: 1, most: 4096 },
  rate: { unset: null, least: 0.001, most: 1e9, fraction: true },
  linkrate: { unset: null, least: 0.001, most: 1e6, fraction: true },
  smcount: { unset: 108, least: 1, most: 10_000 },
  clock: { unset: 1410, least: 1, most: 100_000 },
  memclock: { unset: 1215, least: 1, most: 1_000_000 },
  capability: { unset: "8.0", text: true },
  memgib: { unset: 40, least: 1, most: 100_000 },
  link: { unset: null, least: 0.001, most: 1e6, fraction: true },
  f: { unset: null, least: 0, most: maxSize },
  range: { unset: "near", choices: ["near", "all"] },
  guess: { unset: null, least: 0, most: maxSize },
  exercise: { unset: null, least: 1, most: 99 },
  answer: { unset: null, text: true },
  job: { unset: null, text: true },
  rung: { unset: null, text: true },
  probe: { unset: null, text: true },
};

/** The state of an address; a value that is not accepted counts as none. */
export function readState(hash) {
  const parameters = new URLSearchParams(hash.replace(/^#/, ""));
  const state = {};
  for (const [name, field] of Object.entries(FIELDS)) {
    const value = parameters.has(name) ? parse(field, parameters.get(name)) : null;
    state[name] = value ?? field.unset;
  }
  return state;
}

/** The address of a state: the fields that are not unset. */
export function writeState(state) {
  const parameters = new URLSearchParams();
  for (const [name, field] of Object.entries(FIELDS)) {
    const value = state[name];
    if (value !== null && value !== field.unset) parameters.set(name, value);
  }
  return `#${parameters}`;
}

/** Changes of a state that give these fields their defaults. */
export function unset(...names) {
  return Object.fromEntries(names.map((name) => [name, FIELDS[name].unset]));
}

/** The value of a field from a text; null if it is not accepted. */
export function readValue(name, text) {
  return parse(FIELDS[name], text);
}

/** The smallest and largest number that a field accepts, and whether it accepts fractions. */
export function findLimits(name) {
  const { least, most, fraction = false } = FIELDS[name];
  return { least, most, fraction };
}

function parse(field, text) {
  if (field.choices !== undefined) return field.choices.includes(text) ? text : null;
  if (field.least === undefined) return text === "" ? null : text.slice(0, 100);
  if (text.trim() === "") return null;
  const number = Number(text);
  const whole = field.fraction || Number.isInteger(number);
  return whole && number >= field.least && number <= field.most ? number : null;
}
