"""Measures a profile: `calibrate` calls `cpu`, `links`, `contention`, `kernels` and `latencies`.

`gpus` does so for each GPU of a machine, and measures what their links reach together.

Products are measured as they are between other work. They begin after a pause of a millisecond,
while threads are asleep; latencies are measured with empty caches, too, and contention while copies
are under way. The median counts, because few jobs are as fast as the best of several runs
(`repetition`). `staircase` fits a kernel's measured launches. `operands` is the memory of products
through the pipeline, made once.

Each part has its time. Once that is over, what is left of it is measured as briefly as can be.
"""
