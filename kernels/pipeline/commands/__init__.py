"""Commands: the steps of a product as data, which C submits without asking the host again.

`command_buffer` is the data, and `recording` makes it from steps with their layouts. `submission`
runs it on one GPU; `programs` run those of a team, a step of each GPU at a time. In an `exchange`
each GPU of a team fetches a part of B over its own link and copies the rest from the others, so
that B crosses the links once.
"""
