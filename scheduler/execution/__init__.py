"""Runs a plan: GPU parts and the CPU part compute their rows of one C at the same time.

`executor` owns the devices, each of which works at one product at a time (`occupancy`). `product`
is a plan with its arrays. `gpu_alone` computes it on one GPU, `run` in parts: each GPU has a
pipeline and a thread. `rows_done` says how far a product is, `final_rows` which rows are final,
`timings` how long its parts took. `prefault` and `pages` make a result's pages during that.
`residents` are the operands that stay on the GPUs. `watchdog` detects a GPU without progress, which
ends the engine.

The rows of all but the last GPU are fixed. In products of 50 ms and more the boundary between the
last GPU and the CPU moves unless F was given; if the predictions hold, they meet at the planned F.

- The GPU takes panels from the top of a range of rows and the CPU takes rows from the bottom, until
  none are left (`row_queue`). The GPU takes up to three panels ahead of those that it has computed.
- The CPU's share is that part of the remaining rows with which both would end together, by their
  speeds so far (`self_scheduling`). The CPU takes half of its share at a time, in rounds of all its
  threads. Such a piece has blocks as large as those of all F rows, so it costs little more than
  reading the clock. A thread that finds no block left takes the next piece while others finish.
- Beyond its planned rows, the GPU takes none of the CPU's share, and the CPU takes none while
  planned ones are left.

So a CPU that is half as fast as planned finishes its first piece at the planned end, and takes no
other. If the CPU is faster or the GPU slower, the CPU takes more rows than F. A wrong prediction
costs a piece, or the panels that the GPU has taken ahead, whichever is larger.

The CPU part starts when the GPU's first copies are under way, because starting it takes the
interpreter's lock, which enqueueing needs, too. With staged copies this is late; the model includes
the delay.
"""
