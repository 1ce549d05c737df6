"""The engines as the service sees them: started, watched, spoken to.

There are the `engine` of this machine, and the nodes of a `cluster`. Each of the two
is a process under a `supervisor`, which hands it products and starts it again when it ends;
`process` is one such; `slabs` gives it the arena's memory.

A CUDA error that poisons its context, a crash, a hang or the out-of-memory killer ends the engine,
never the service. A job whose engine ended is tried again, the last time on the CPU alone. Memory
that an engine had is not used again before its process is reaped. Matrices never travel in messages
(`scheduler/engine/messages.py`): they lie in the arena, which is the service's, so none is lost
with an engine.
"""
