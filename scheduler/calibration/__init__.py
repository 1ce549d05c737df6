"""Measures a profile: `calibrate` asks `cpu`, `links`, `kernels` and `contention` in turn.

`repetition` measures something several times; `staircase` and `row_cost` fit what was measured.
"""
