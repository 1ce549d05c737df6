"""The service against its peers and its floor, over real sockets: `python -m benchmarks.http`.

`servers` are the peers and the floor, `clients` send requests, and `baselines` start them all. A
`run` goes through `cases`: in a `contest` baselines take turns at a product; `transfers` and `jobs`
measure the service and its floors alone, with `own_memory` and the `disk`. The `rows` are `judged`,
and shown as `tables` and a `plot`. `endurance` checks that the service keeps nothing of 100,000
products; `lanes` measures the throughput of equal jobs by the GPUs that a service may use.
"""
