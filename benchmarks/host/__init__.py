"""Products in host memory against other libraries, and sweeps of F: `python -m benchmarks.host`.

`products` says which. The machine is brought into `conditions`. A `contest` starts processes that
measure: in the `rounds` of each, each of the `baselines` multiplies each product once; the GPU
alone has a `limit`. `sweeps` go through products and `sweep` F at each. The `results` are shown by
`tables` and `plots` in docs/performance.md, and as `gains` in the README.
"""
