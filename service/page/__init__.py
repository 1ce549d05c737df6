"""The pages that a browser shows: the wave explorer at `/`, the HTTP API at `/docs`.

`site` serves the files of this folder. `index.html` and `main.js` are the frame; a view is a folder
with a module `view.js`, named in `main.js`. `state` is the address, `service` calls /v1, `machines`
finds profiles, `dom` and `units` make elements and texts.

`model/` is the planner again, in JavaScript, file for file as in `kernels/pipeline/` and
`scheduler/`: the same operations in the same order, so that F, waves and seconds are equal.
`tables.js` and `sweeps.js` in it are written by `docs/explorer_tables.py`. `explorer/` draws.
`vendor/` is others' code, pinned.

Plain ES modules: nothing is built, and nothing is asked for beyond this service. The same files,
joined by `docs/explorer_page.py`, are docs/explorer.html.
"""
