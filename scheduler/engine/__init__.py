"""The engine: a process that computes what the service asks.

`python -m wavetrim.scheduler.engine` starts it.

`messages` travel over a `channel`; `arena` holds the shared memory (`mapping`, `placing`); `run`
takes one product from its request to its answer.

The main thread reads its work from one socket and computes it, so nothing is handed from thread to
thread. A second socket is heard meanwhile, for pings and cancels.
"""
