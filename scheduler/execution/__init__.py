"""Runs a plan: the GPU's rows beside the CPU's, at the same time, into one C.

`executor` owns the devices, `run` is one product on them. `row_queue` hands out rows from both
ends; `pieces` and `outlook` say how many the CPU takes. `prefault` and `pages` make a result's
pages meanwhile, `watchdog` notices a GPU that hangs.
"""
