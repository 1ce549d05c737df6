"""Jobs over HTTP, at a real service, or at two in turns: `make bench-jobs`.

A `trace` of jobs is posted by several callers to a `service`; `scenes` are what is measured: loads,
a flood, small ones behind a large one, rates, lists. `rows` are the results.
"""
