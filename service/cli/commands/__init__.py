"""The commands, a file each: a function of its name, and EXAMPLES for the end of its help.

`service/` starts one and has its keys and its folder; `machine/` plans, multiplies and measures
here; `jobs/` and `matrices/` speak to a service that runs.
"""
