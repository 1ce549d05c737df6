"""What all benchmarks share, in the order of use.

`environment` describes the machine; `shapes`, `operands` and `freivalds` are the products and their
check; `turns` divides a run's time and interleaves the baselines; `results` writes and reads
rows, `tables` and `plots` show them.
"""
