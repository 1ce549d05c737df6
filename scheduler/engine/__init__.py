"""The engine: a process that computes products for the service.

`python -m wavetrim.scheduler.engine` starts it.

`messages` travel over a `channel`, read by a `conversation`; `arena` has the shared memory
(`mapping`, `layout`), and `dropping` lets go of it. `run` turns one request into its answer:
`operands` finds its matrices, `residents` decides whether its B stays on the GPUs. `readings` are
the GPUs' latest.

The main thread reads requests from one socket and computes brief products itself. Longer ones are
computed by a thread for each device (`lane_threads`), so that devices can work at different
products. Another thread reads pings and cancellations from a second socket.
"""
