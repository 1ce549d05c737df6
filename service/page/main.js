/** The page's frame: its views, and the address. A view is added by a line in VIEWS.
 *
 * A view is a class, made with (root, frame). `show(state)` is called for each new address. It may
 * have `draw()`, called when the page has another width, and `close()`, before another view is shown.
 * Its static `complete(state, frame)`, if there is one, fills in missing parts of an address; false if
 * there were any. `frame.go(changes)` changes the address, so the browser's Back button undoes it.
 * Views with `load` need a service, and are loaded when they are first shown.
 */

import { makeButton } from "./controls.js";
import { make } from "./dom.js";
import { Explorer } from "./explorer/view.js";
import { tellError } from "./notice.js";
import { Service } from "./service.js";
import { readState, writeState } from "./state.js";

const VIEWS = [
  { id: "explorer", title: "Wave explorer", View: Explorer },
  { id: "jobs", title: "Jobs", load: () => import("./jobs/view.js") },
  { id: "storage", title: "Storage and devices", load: () => import("./storage/view.js") },
  { id: "ladder", title: "Ladder", load: () => import("./ladder/view.js") },
];

const root = document.getElementById("view");
const service = new Service();
const frame = { service, go, state: null, own: null };
const entries = VIEWS.filter(({ load }) => service.present || load === undefined);
const addresses = new Map(); // the last address of each view
let mounted = null;

function go(changes) {
  const hash = writeState({ ...frame.state, ...changes });
  if (hash === location.hash) show(); // what was typed in is replaced by what is shown
  else location.hash = hash;
}

async function show() {
  const { hash } = location;
  const state = readState(hash);
  const entry = entries.find((one) => one.id === state.view) ?? entries[0];
  let View;
  try {
    View = entry.View ?? (await entry.load()).View;
  } catch (error) {
    if (location.hash === hash) tellFailure(entry, error);
    return;
  }
  const isComplete = await View.complete?.(state, frame);
  if (location.hash !== hash) return; // the address has changed meanwhile
  if (isComplete === false) history.replaceState(null, "", writeState(state));
  frame.state = state;
  addresses.set(entry.id, location.hash);
  if (!(mounted instanceof View)) {
    mounted?.close?.();
    root.replaceChildren();
    mounted = new View(root, frame);
    document.title = `${entry.title} · wavetrim`;
  }
  listViews(entry);
  const shown = location.hash;
  await mounted.show(state);
  root.dataset.shown = shown;
}

/** Show that a view could not be loaded. */
function tellFailure(entry, error) {
  mounted?.close?.();
  mounted = null;
  const textContent = `${entry.title} cannot be shown: ${tellError(error)}`;
  root.replaceChildren(
    make(
      "div",
      { className: "page-column" },
      make("p", { className: "problem", role: "alert", textContent }),
      make("p", {}, makeButton("Try again", tryAgain)),
    ),
  );
  document.title = `${entry.title} · wavetrim`;
  listViews(entry);
  root.dataset.shown = location.hash;
}

/** Load the page anew if the service answers: the browser remembers that a module was not there. */
async function tryAgain() {
  try {
    await fetch("healthz/live", { cache: "no-store" });
  } catch {
    await show();
    return;
  }
  location.reload();
}

function listViews(current) {
  const links = entries.map((entry) =>
    make("a", {
      href: addresses.get(entry.id) ?? `#view=${entry.id}`,
      textContent: entry.title,
      "aria-current": entry === current ? "page" : null,
    }),
  );
  if (service.docs) links.push(make("a", { href: "docs", textContent: "HTTP API" }));
  document.getElementById("views").replaceChildren(...links);
}

document
  .getElementById("foot")
  .append(
    service.present
      ? "Served by wavetrim. This page loads nothing from other hosts."
      : "This file has the exercises and the measured products. Other products need a service: make serve.",
  );
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  root.focus();
});
let width = root.clientWidth;
new ResizeObserver(() => {
  if (root.clientWidth === width) return;
  width = root.clientWidth;
  mounted?.draw?.();
}).observe(root);
window.addEventListener("hashchange", show);
show();
