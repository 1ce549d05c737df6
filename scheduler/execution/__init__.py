"""Runs a plan: GPU parts and the CPU part compute their rows of one C at the same time.

`executor` owns the devices, each of which works at one product at a time (`occupancy`). `product`
is a plan with its arrays. `gpu_alone` computes it on one GPU, `run` in parts: each GPU has a
pipeline and a thread. `short_products` are those that take a moment. `rows_done`
says how far a product is, `final_rows` which rows are final, `timings` how long its parts took, and
`run_notes` remembers that for later predictions. `prefault` makes a result's pages meanwhile, by
the system calls of `pages`. `residents` are the operands that stay on the GPUs. `watchdog` detects
a GPU without progress, which ends the engine.

Parts of products under 50 ms that need nothing more of the host once they are enqueued are enqueued
by the calling thread, which then computes the CPU part. `teams` keeps their commands for the next
product of the plan, and `short_products` those of short ones (`kept`). Other GPU parts have a
thread each, report their rows while they compute, and can be stopped.

The CPU part starts when the GPU's first copies are under way, because starting it takes the
interpreter's lock, which enqueueing needs, too. With staged copies this is late; the model includes
the delay.
"""
