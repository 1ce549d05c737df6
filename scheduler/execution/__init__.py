"""Runs a plan: GPU parts and the CPU part compute their rows of one C at the same time.

`executor` owns the devices. Each works at one product at a time. It computes short products itself:
those of up to 5 ms on the CPU, and those that take the straight path on a GPU.
`gpus` has a pipeline and a thread for each GPU, and computes a product on one of them; `run`
computes it in parts. `rows` reports which rows of C are done, and which are final. `timings` says
how long the parts took, and records that for later predictions.
`small_stacks` computes many small products at once. `pages` makes a result's pages while it is
computed. `watchdog` detects a GPU without progress, and ends the engine then.

The calling thread enqueues the GPU parts of products under 50 ms at once if they then need nothing
of the host, and computes the CPU part. The GPUs of a plan are a team, which keeps their commands
for its next product. Other GPU parts have a thread each, report their rows while they compute, and
can be stopped.

The CPU part starts when the GPU's first copies are under way: to start it takes the interpreter's
lock, which enqueueing needs, too. With staged copies this is late; predictions include the delay.
"""
