"""Measures a profile: `calibrate` calls `cpu`, `links`, `contention`, `kernels` and `latencies`.

`cpu` has `cpu_memory` for what memory bounds. `gpus` measures each GPU of a machine so, and what
their links reach together. `profiles` has the current profile of a machine that runs products;
there, a CPU that was never calibrated is measured briefly.

A brief product is measured as the second of two after a pause, so it follows its like. The median
counts, because few products are as fast as the best of several runs (`repetition`). Contention is
measured during copies.
`staircase` fits a kernel's measured launches, `row_cost` a row's cost on the CPU. `operands` has
the measured products' matrices.

Each part has a limit of time. What is left when it is over is measured as briefly as possible.
"""
