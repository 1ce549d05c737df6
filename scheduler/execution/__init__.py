"""Runs a plan: GPU parts and the CPU part compute their rows of one C at the same time.

`executor` owns the devices, each of which works at one product at a time (`occupancy`). `product`
is a plan with its arrays. `gpu_alone` computes it on one GPU, `run` in parts: each GPU has a
pipeline and a thread. `short_products` have no parts: up to 5 ms on the CPU, or the straight way on
a GPU. `small_stacks` computes many small products at once. `rows_done` says how far a product is,
`final_rows` which rows are final, `timings` how long its parts took; `run_notes` records that for
later predictions. `prefault` makes a result's pages meanwhile, by the system calls of `pages`.
`gpu_residents` are the B matrices that stay on the GPUs. `watchdog` detects a GPU without progress,
which ends the engine.

The calling thread enqueues the GPU parts of products under 50 ms at once if they then need nothing
of the host, and computes the CPU part. `teams` keeps their commands for the next product of the
plan. Other GPU parts have a thread each, report their rows while they compute, and can be stopped.

The CPU part starts when the GPU's first copies are under way: to start it takes the interpreter's
lock, which enqueueing needs, too. With staged copies this is late; predictions include the delay.
"""
