"""Decides which device computes which rows of a product, and runs it.

In the order in which a product passes: `problem` and `options` describe the product; `profile/`
describes the machine, as `calibration/` measured it; `planning/` predicts the time of rows on each
device and chooses kernel and split; `execution/` runs the plan; `check/` verifies the result.
`engine/` is the process around all this, `cluster/` has engines on other hosts, `local/` does the
same inside a caller's own process (`wavetrim.matmul`).

Decisions are pure functions of frozen dataclasses (problem, profile, plan); effects are in
`calibration/`, `execution/`, `engine/`, `cluster/` and `local/`. A caller's options travel as one
value from the API to the engine. A constant that is "chosen" is a judgement, not a measurement.
"""
