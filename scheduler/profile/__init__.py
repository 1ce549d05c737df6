"""The profile of a machine: `machine`, from a calibration, from `presets`, or by `estimate`.

A machine has a profile for each GPU (`beside`), and `joint` says what their links reach together.
`store` finds and stores profiles as JSON, and refuses a damaged one. `provider` gives all others
the current one, with the `corrections` from this process's runs. `what_if` replaces numbers of one,
or describes a GPU that is not here. Each group of numbers names its source: measured here
(`wavetrim calibrate`), from a data sheet, as asked, or estimated by a stated rule.
"""
