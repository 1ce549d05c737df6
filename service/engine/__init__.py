"""The engines as the service sees them: started, watched, spoken to.

`fleet` is all of them: `engine`, that of this machine, and the nodes of a `cluster`. Both are a
process under a `supervisor`, which starts it again when it ends; `process` is one run of it;
`slabs` tells it of the arena's memory.

A CUDA error that poisons its context, a crash, a hang or the out-of-memory killer ends the engine,
never the service. A job whose engine ended is tried again, the last time on the CPU alone. Nothing
that an engine knew is used again before its process is reaped. Matrices never travel in messages
(`scheduler/engine/messages.py`): the arena is the service's, so an engine that dies takes none with
it.
"""
