"""The engine: a process that computes products for the service.

`python -m wavetrim.scheduler.engine` starts it.

`messages` travel over the two sockets of a `conversation`; `arena` has the shared memory. `worker`
decides which thread computes a request. `run` turns one into its `answer`: it finds the matrices
(`operands`), plans the product, decides whether its B stays on the GPUs, computes and checks it.

The main thread reads requests from one socket and computes short products itself, without a GPU all
of them. A longer one is computed by the thread of its first GPU, or of the CPU, so that devices can
work at different products. Another thread reads pings and cancellations from a second socket.
"""
