"""The schedule of a product through a GPU, as data: its parts, and the time that they take.

The planner predicts the time of the list of parts that `pipeline/` then runs. Nothing here needs a
GPU.

1. `panels` describes the product: tiles, waves, panels of rows. It makes the list from a `Cut`,
   which is three numbers. A part is a copy in, a kernel over rows × columns × depth, and a copy
   out.
2. `buffers` fits the device buffers of A, B and C into a limit of memory.
3. `cuts` chooses the fastest of a dozen cuts. It predicts a list's time by a recurrence over three
   queues (copies in, kernels, copies out).
4. `steps` gives each part its buffers, and says what it waits for.
"""
