"""The pages that a browser shows: explorer, jobs, storage and ladder at `/`, the API at `/docs`.

`site` serves the files of this folder. `docs.html` shows the API by Swagger UI.
`index.html` and `main.js` are the frame; a view is a folder with a module `view.js`, named in
`main.js`, and loaded when it is first shown. `state` is the
address, `service` calls /v1, `events` follows its streams, `notice` shows errors and asks for the
key, `machines` lists what can be planned for, `npy` reads and writes such files, and `files`
downloads them. `dom`, `controls`, `section`, `table`, `chart`, `palette` and `units` make elements,
forms, panels, tables, curves, colours and texts.

`explorer/` shows a plan: `answers` asks `/v1/plan` by a `query`, `plan` is the answer as it is
drawn, `results` draws it, `form` and `slider` change it. Exercises and measured products are
answered by `recorded.js`, which `docs/recorded_answers.py` writes, as `catalog.js`. `jobs/` follows
jobs and posts products. `storage/` shows matrices, devices and the profile. `ladder/`
shows kernels, their sources, and probes; its `rungs.js` and `probes.js` are written by
`docs/ladder_tables.py`. `vendor/` is third-party code, pinned.

Plain ES modules: nothing is built, and no request goes beyond this service. The same files, joined
by `docs/explorer_page.py`, are docs/explorer.html.
"""
