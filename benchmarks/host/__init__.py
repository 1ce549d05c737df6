"""Products in host memory beside others, and F beside all others: `python -m benchmarks.host`.

`suite` says which products, by importance. A `bench` draws each and lets the `baselines` take
turns in a `contest`, beside the `limit` of the GPU alone, or makes a `sweep` of F. Both make
`rows`, which `results` writes and reads; they are `judged`, and shown as `tables` and `plots`.
"""
