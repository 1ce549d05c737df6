"""Commands: the steps of a product as data, which C submits without asking the host again.

`command_buffer` is the data, and `recording` makes it from placed steps. `submission` runs it on
one GPU; `programs` run those of several GPUs, a team, in turns. In an `exchange` each GPU of a team
fetches a part of B over its own link and copies the rest from the others, so that B crosses the
links once.
"""
