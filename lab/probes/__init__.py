"""The memory-hierarchy probes on the machine at hand, as reports.

Each module measures one thing with the probes of `lab/gpu/` and makes a report of it, beside the
reference's figures where it gives some. The measuring needs a GPU (but for the CPU's rows), the
report does not. `catalog` lists them.
"""
