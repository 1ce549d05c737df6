"""Measures a profile: `calibrate` asks `cpu`, `links`, `kernels` and `contention` in turn.

Products are measured after a pause of a millisecond, as the next of many jobs finds the machine:
threads sleep by then. What counts is the median, since the best of several is rarely what a job
finds (`repetition`).
`staircase` fits what was measured of a kernel.
"""
