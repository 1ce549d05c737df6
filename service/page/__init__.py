"""The pages that a browser shows: explorer, jobs, storage and ladder at `/`, the API at `/docs`.

`site` serves the files of this folder. `index.html` and `main.js` are the frame; a view is a folder
with a module `view.js`, named in `main.js`, and loaded when it is first shown. `state` is the
address, `service` calls /v1, `events` follows its streams, `notice` shows errors, `key_form` asks
for the key, `machines` finds profiles, `npy` reads files and `files` downloads them. `dom`,
`controls`, `table`, `chart`, `palette` and `units` make elements, forms, tables, curves, colours
and texts.

`model/` is the planner in JavaScript, file for file as in `kernels/` and `scheduler/`: the same
operations in the same order, so that F, waves and seconds are equal. Its `tables.js` and
`sweeps.js` are written by `docs/explorer_tables.py`. `explorer/` shows a plan: `results` draws it,
`form` and `slider` change it. `jobs/` follows jobs, posts products and checks them. `storage/`
shows matrices, devices and the profile. `ladder/` shows kernels, their sources, and probes; its
`rungs.js` and `probes.js` are written by `docs/ladder_tables.py`. `vendor/` is third-party code,
pinned.

Plain ES modules: nothing is built, and no request goes beyond this service. The same files, joined
by `docs/explorer_page.py`, are docs/explorer.html.
"""
