"""Measures a profile: `calibrate` measures a machine by `cpu` and, for each GPU, `gpu`.

Numbers come from products that run as those of users do: with the same threads and kind of memory,
after a pause and other work. The median counts (`repetition`). Each file begins with the equations
that it solves.
"""
