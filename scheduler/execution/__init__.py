"""Runs a plan: the GPU's rows and the CPU's rows, at the same time, into one C.

`executor` owns the devices, `run` is one product on them. `prefault` and `pages` make a result's
pages meanwhile, `watchdog` notices a GPU that makes no progress, which ends the engine.

The boundary moves unless F was given: the planned F is only where both parts should meet.

- The GPU takes panels from the top of one range of rows, the CPU takes rows from the bottom, until
  nothing is left (`row_queue`). The GPU has three panels in hand that are not computed.
- Of the rows that are left each part is due a share in proportion to its speed so far; the CPU
  takes half of its share at a time, in rounds of all its threads (`self_scheduling`). Pieces are
  cut into blocks as large as those of F rows taken at once, so they cost little more than a look
  at the clock. A thread that finds no block left takes the next piece, while the others finish
  theirs.
- Beyond its planned rows the GPU takes only those that the CPU is not due.

So a CPU that needs twice the planned time is done with its first piece when all should be done, and
takes no other. One that is fast, or whose GPU is slow, goes on beyond F. A wrong prediction costs a
piece or the GPU's panels in hand, whichever is larger.

The CPU part starts when the GPU's first copies are on their way: starting it takes the
interpreter's lock, which enqueueing wants. Where copies are staged that is late, and the model
knows it.
"""
