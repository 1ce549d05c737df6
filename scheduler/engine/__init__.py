"""The engine: a process that computes products for the service.

`python -m wavetrim.scheduler.engine` starts it.

`messages` travel over a `channel`, read by a `conversation`; `arena` has the shared memory
(`mapping`, `layout`). `run` turns one request into its answer:
`operands` finds its matrices, `b_fetcher` decides whether its B stays on the GPUs; `stack` computes
the products of a stack. `readings` are the GPUs' latest.

The main thread reads requests from one socket and computes short products itself. Longer ones are
computed by a thread for each device (`device_threads`), so that devices can work at different
products. Another thread reads pings and cancellations from a second socket.
"""
