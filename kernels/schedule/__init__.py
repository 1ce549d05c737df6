"""The schedule of a product through a GPU, as data: its steps, and the time that they take.

The planner predicts with the list of steps that `pipeline/` then runs. Nothing here needs a GPU.

1. `panels` describes the product, and cuts its rows into panels.
2. `buffers` fits the device buffers of A, B and C into a limit of memory.
3. `steps` makes the list from a `Cut`, which is a few numbers. A step is bytes in, a kernel over
   rows × columns × depth, bytes out, and what each waits for.
4. `schedule` times the list by one recurrence over three queues (copies in, kernels, copies out),
   at the machine's rates.
5. `cuts` decides the cut: it times a small family and takes the fastest, remembered by shape.
"""
