"""What all benchmarks share, in the order of use.

`environment` describes the machine; `shapes`, `operands` and `freivalds` are the products and their
check; `steps` divides a run's time, `turns` interleaves the baselines; `results` writes and reads
rows, `tables` and `plots` show them.
"""
