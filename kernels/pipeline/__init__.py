"""Products of matrices in host memory on a GPU: copies in, kernels and copies out overlap.

In the order of a product's way:

1. `pipeline` takes a product (`host_product`) with its cut, and chooses between two paths.
2. `device_memory` has the buffers for the steps of the cut (`schedule/`), and `places` gives the
   steps their addresses. Placed steps are kept by shape, and with them their prepared launches for
   each kernel, α, β and number of multiprocessors (`launch_cache`).
3. `direct_path` is for page-locked memory: the steps are recorded once as `commands`, which C
   enqueues. Pageable products of up to 12 MiB go this way, too, copied whole through page-locked
   memory: enqueueing steps from Python takes longer.
4. `staged_path` is for all others: `flow` enqueues the steps one by one.
5. `arrivals` reports rows that are final, and reads the times of finished steps between launches.

`residents` are operands that stay on the GPU between products, in memory of their own, so that no
step copies them in. Buffers go first: if both do not fit, residents leave.

A `recorded_product` is what remains of all this when a brief product from page-locked memory runs
again: its commands, bound to other operands.

A `team` are GPUs that share a product. Their commands are kept for the next product of the same
plan, and enqueued in turns by one call.

Nothing of the caller's is kept, except for what `keep` is given with a key. CUDA events are used
again by the next product. Events that can be timed delay a stream a little. A command buffer has
them only where a caller asks for times, or enqueues a product without waiting for it (`team`):
only the GPU then knows when it ended.
"""
