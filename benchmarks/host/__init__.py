"""Products in host memory against other libraries, and sweeps of F: `python -m benchmarks.host`.

`suite` lists the products by importance. A `bench` draws each and lets the `baselines` take turns
in a `contest`, on a `machine` that is awake, against the `limit` of the GPU alone; or it makes a
`sweep` of F. The `results` are `judged`, with a `judgement` for each bound: `predictions` has those
of predicted seconds, `several` those of several GPUs. `tables` and `plots` show them in
docs/performance.md. `busy` is the contest of many products in turns, on a busy machine.
"""
