"""Products of many shapes in turns, on a quiet machine and on a busy one.

Run `python -m benchmarks.host.busy`. `products` says which products. The machine is brought into
`conditions`: after a NumPy product, beside other processes, with half its time. `rounds` is one
process that measures: in each round each baseline multiplies each product once, in a random order,
as a program does that has more than one shape. `rows` holds the medians of several such processes,
and judges them; `tables` shows them.
"""
