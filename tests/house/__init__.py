"""What the house costs a reader: lines room by room, and the ways that calls take through it.

`rooms` counts lines, `ways` counts what runs, `limits` is what neither may pass. In the process of
a way `recorder` notes what runs. `python -m tests.house` prints all counts.
"""
