"""Products in host memory against other libraries, and sweeps of F: `python -m benchmarks.host`.

`products` lists them, and `conditions` what else the machine does. A `contest` starts processes
that measure: in each of their `rounds`, each of the `baselines` multiplies each product once.
A `sweep` varies F at products. `pages` shows the `results` in docs/performance.md, `gains` in the
README.
"""
