"""The pages that a browser shows: explorer, jobs, storage and ladder at `/`, the API at `/docs`.

`site` serves the files of this folder. `index.html` and `main.js` are the frame; a view is a folder
with a module `view.js`, named in `main.js`, and loaded when it is first shown. `state` is the
address, `service` calls /v1, `events` follows its streams, `notice` tells of refusals and asks for
the key, `machines` finds profiles, `npy` reads files and `files` saves them; `dom`, `chart`,
`palette` and `units` make elements, curves, colours and texts.

`model/` is the planner again, in JavaScript, file for file as in `kernels/` and
`scheduler/`: the same operations in the same order, so that F, waves and seconds are equal.
`tables.js` and `sweeps.js` in it are written by `docs/explorer_tables.py`. `explorer/` draws.
`jobs/` follows jobs, posts products and checks them; `storage/` has matrices, devices and what was
learnt; `ladder/` shows kernels and probes, `rungs.js` and `probes.js` of it by
`docs/ladder_tables.py`, and the kernels' sources as they are.
`vendor/` is others' code, pinned.

Plain ES modules: nothing is built, and nothing is asked for beyond this service. The same files,
joined by `docs/explorer_page.py`, are docs/explorer.html.
"""
