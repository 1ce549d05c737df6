"""Products in host memory against other libraries, and sweeps of F: `python -m benchmarks.host`.

`suite` lists the products by importance. A `bench` draws each and lets the `baselines` take turns
in a `contest`, on a `machine` that is awake, against the `limit` of the GPU alone; or it makes a
`sweep` of F. The `results` are `judged`, with a `judgement` for each bound, and shown as `tables`,
`plots` and `timelines`. `predictions` says how far predictions were off; `several` judges and shows
products on several GPUs. `busy` is the contest of many products in turns, on a busy machine.
"""
