"""Probes of this machine's memories, links and launches, as reports.

`catalog` lists them. Each module measures one thing with the kernels of `lab/gpu/` and reports it,
with the reference's figures if there are any. Measuring needs a GPU (except in `cpu_rows`), the
report does not. `rates` and `links` make the tables and plots that several probes share.
"""
