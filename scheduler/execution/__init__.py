"""Runs a plan: GPU parts and the CPU part compute their rows of one C at the same time.

`executor` owns the devices, each of which works at one product (`occupancy`); `run` is one product
on them, `rows_done` says how far it is,
`final_rows` which rows are final, `timings` how long its parts took. Each GPU has a pipeline and a
thread. The rows of all but the last GPU are fixed. `prefault` and `pages` make a result's pages
meanwhile. `residents` are the operands that stay on the GPUs. `watchdog` detects a GPU without
progress, which ends the engine.

The boundary between the last GPU and the CPU moves unless F was given: both should meet at the
planned F.

- The GPU takes panels from the top of a range of rows and the CPU takes rows from the bottom, until
  none are left (`row_queue`). The GPU takes up to three panels ahead of those that it has computed.
- Each part is due a share of the rows that are left, in proportion to its speed so far
  (`self_scheduling`). The GPU's speed is the planned one until its first panel has come, and is
  measured from there. The CPU takes half of its share at a time, in rounds of all its threads. Such
  a piece has blocks as large as those of all F rows, so it costs little more than reading the
  clock. A thread that finds no block left takes the next piece while the others finish theirs.
- Beyond its planned rows, the GPU takes only rows that the CPU is not due, and the CPU takes none
  while planned ones are left.

So a CPU that is half as fast as planned finishes its first piece at the planned end, and takes no
other. A faster CPU, or one with a slower GPU, takes more rows than F. A wrong prediction costs a
piece, or the panels that the GPU has taken ahead, whichever is larger.

The CPU part starts when the GPU's first copies are under way, because starting it takes the
interpreter's lock, which enqueueing needs, too. With staged copies this is late; the model includes
the delay.
"""
