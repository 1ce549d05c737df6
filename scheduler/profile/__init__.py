"""What is known of a machine: `machine`, from a calibration, from `presets`, or by `estimate`.

`store` finds and keeps the profile that holds, `history` the runs that correct it; `provider` is
the one place that both are asked from.
Each group of its numbers names its source: measured here (`wavetrim calibrate`), taken from a data
sheet, or estimated by a stated rule.
"""
