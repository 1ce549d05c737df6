"""The memory-hierarchy probes of this machine, as reports.

Each module measures one thing with the probes of `lab/gpu/` and makes a report of it, with the
reference's figures where it gives some. The measuring needs a GPU (except for the CPU's rows), the
report does not. `catalog` lists them.
"""
