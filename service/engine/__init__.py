"""The engine process as the service sees it: started, watched, spoken to.

`supervisor` hands it products, watches it and starts it again; `process` is one run of it; `slabs`
tells it of the arena's memory.

A CUDA error that poisons its context, a crash, a hang or the out-of-memory killer ends the engine,
never the service. A job whose engine ended is tried again, the last time on the CPU alone. Nothing
that an engine knew is used again before its process is reaped. Matrices never travel in messages
(`scheduler/engine/messages.py`): the arena is the service's, so an engine that dies takes none with
it.
"""
