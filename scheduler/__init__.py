"""Decides who computes which rows of a product, and runs it.

Read in the order in which a product passes: problem, wishes, waves, cost, machine, presets,
profile, candidates, split, plan, execute, verify; calibrate fills a profile with measurements,
worker is the engine process around it all. In a caller's own process that is matmul: arrays,
stacks, local_process, local_machine.
"""
