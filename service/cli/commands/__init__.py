"""The commands, a file each; its function has the command's name, EXAMPLES end its help.

`service/` starts one and has its keys and its folder; `machine/` plans, multiplies and measures
here; `jobs/` and `matrices/` speak to a service that runs.
"""
