"""What all benchmarks share, in the order of use.

`environment` and `profile` say what is measured on; `shapes`, `operands` and `projection` are the
products and their checks; `steps` shares out a run's time and `turns` interleaves the baselines;
`results` writes and reads rows, which `tables` and `plots` show.
"""
