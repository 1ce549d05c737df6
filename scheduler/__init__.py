"""Decides who computes which rows of a product, and runs it.

In the order in which a product passes: `problem` and `options` say what is asked; `profile/` what
this machine is, filled by `calibration/`; `model/` what rows cost on each device; `planning/`
chooses kernel and split; `execution/` runs the plan; `check/` proves the product right. `engine/`
is the process around it all, `local/` the same inside a caller's own process (`wavetrim.matmul`).

What the caller wants of the plan travels as one value, `options`, from the API to the engine.
Decisions are pure functions of frozen dataclasses (problem, profile, curves, plan); effects are in
`calibration/`, `execution/`, `engine/` and `local/`.
"""
