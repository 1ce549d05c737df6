"""The engine: a process that computes products for the service.

`python -m wavetrim.scheduler.engine` starts it.

`messages` travel over a `channel`, read by a `conversation`; `arena` has the shared memory
(`mapping`, `placing`); `run` turns one request into its answer, `parts` several answers into one;
`residents` decides whether a product's B stays on the GPUs; `readings` are the GPUs' of this
moment.

The main thread reads requests from one socket and computes brief products, which change no thread;
longer ones have a thread for each device (`lane_threads`), so that the devices work at different
products. Another thread reads pings and cancellations from a second socket.
"""
