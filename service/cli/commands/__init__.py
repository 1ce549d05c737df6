"""The commands, a file each: a function with its name, and EXAMPLES for the end of its help.

`service/` starts a service, and manages its keys and its folder; `machine/` plans, multiplies and
measures on this machine; `jobs/` and `matrices/` speak to a running service.
"""
