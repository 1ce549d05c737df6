"""The service beside its peers and its floor, over real sockets: `python -m benchmarks.http`.

`servers` are those to compare with, `clients` ask them, and `baselines` start them all. A `run`
goes through `cases`: in a `contest` baselines take turns at a product; `transfers` and `jobs` are
of the service and its floors alone. `rows` are what a `record` writes; they are `judged`, and shown
as `tables` and a `plot`. `endurance` looks at what the service keeps of 100,000 products: nothing.
"""
