"""The profile of a machine: `machine`, from a calibration, from `presets`, or by `estimate`.

A machine has a profile for each GPU (`beside`), and `joint` says what their links reach together.
`document` reads them from JSON, and refuses what is damaged. `store` finds and stores profiles,
`history` keeps the runs that correct them in a `runs_file`, and `provider` gives all others the
current profile with its corrections. `described` is a GPU that a caller describes. Several
processes write these files (`shared_file`). `what_if` replaces numbers of one. Each group of
numbers names its source: measured here (`wavetrim calibrate`), from a data sheet, as asked, or
estimated by a stated rule.
"""
