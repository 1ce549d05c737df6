"""Products in host memory against other libraries, and sweeps of F: `python -m benchmarks.host`.

`suite` says which products, by importance. A `bench` draws each and lets the `baselines` take turns
in a `contest`, on a `machine` that is awake, against the `limit` of the GPU alone; or it makes a
`sweep` of F. The `results` are `judged`, one `judgement` for each figure that is asked for, and
shown as `tables` and `plots`; `predictions` says how far these were off, and `several` judges and
shows products on several GPUs.
"""
