"""Measures a profile: `calibrate` calls `cpu`, `links`, `kernels` and `contention` in turn.

Products are measured after a pause of a millisecond, so threads are asleep, as they are when the
next of many jobs begins. The median counts, because few jobs are as fast as the best of several
runs (`repetition`). `staircase` fits a kernel's measured launches.
"""
