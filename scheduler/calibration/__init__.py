"""Measures a profile: `calibrate` calls `cpu`, `kernels` and `links`.

`gpus` measures each GPU of a machine so, and what their links reach together. `profiles` has the
current profile of a machine that runs products; a CPU that was never calibrated is measured quickly
there.

Numbers come from products that run as those of users do: with the same threads and kind of memory,
after a pause and other work. The median counts (`repetition`). Each file begins with the equations
that it solves.
"""
