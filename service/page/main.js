/** The page's frame: views by name, the address, and the key. A view is added by a line in VIEWS.
 *
 * A view is `{ id, title, mount(root, frame) }`; `mount` returns `show(state)`, called for each new
 * address. `frame.go(changes)` makes a new address, so the browser's own back undoes it.
 */

import { make } from "./dom.js";
import { EXPLORER } from "./explorer/view.js";
import { findFirst, findGpus } from "./machines.js";
import { Service } from "./service.js";
import { readState, writeState } from "./state.js";

const VIEWS = [EXPLORER];

const root = document.getElementById("view");
const service = new Service();
const frame = { service, go, state: null, gpus: null };
let mounted = null;

function go(changes) {
  location.hash = writeState({ ...frame.state, ...changes });
}

async function show() {
  const { hash } = location;
  const state = readState(hash);
  frame.gpus ??= await findGpus(service);
  const isBare = state.device === null || state.threads === null;
  const first = isBare ? await findFirst(service) : null;
  if (location.hash !== hash) return; // another address came meanwhile
  if (isBare) {
    state.device ??= first.device;
    state.threads ??= first.threads;
    history.replaceState(null, "", writeState(state));
  }
  const view = VIEWS.find((one) => one.id === state.view) ?? VIEWS[0];
  frame.state = state;
  if (mounted === null || mounted.view !== view) {
    root.replaceChildren();
    mounted = { view, show: view.mount(root, frame) };
    document.title = `${view.title} · wavetrim`;
    listViews(view);
  }
  const shown = location.hash;
  await mounted.show(state);
  root.dataset.shown = shown;
}

function listViews(current) {
  const links = VIEWS.map((view) =>
    make("a", {
      href: `#view=${view.id}`,
      textContent: view.title,
      "aria-current": view === current ? "page" : null,
    }),
  );
  if (service.docs) links.push(make("a", { href: "docs", textContent: "HTTP API" }));
  document.getElementById("views").replaceChildren(...links);
}

document
  .getElementById("foot")
  .append(
    service.present
      ? "Served by wavetrim on this machine; nothing else is asked for."
      : "One file: no service, no GPU and no network is needed.",
  );
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  root.focus();
});
window.addEventListener("hashchange", show);
show();
