"""Commands: the steps of a product as data, which C submits in one call.

`command_buffer` is the data, and `recording` makes it from steps with their layouts. `submission`
runs it on one GPU; `programs` run the buffers of a team, a step of each GPU at a time. In an
`exchange` each GPU of a team copies in a part of B over its own link, and the rest from the others.
"""
