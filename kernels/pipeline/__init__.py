"""Products of matrices in host memory on a GPU: copies in, kernels and copies out overlap.

In the order of a product's way:

1. A small product takes the `straight` path: copies in, cuBLAS, a copy out, none of them cut.
2. `pipeline` takes any other product (`host_product`) with its cut, and chooses between two paths.
3. `device_memory` has the buffers for the steps of the cut (`schedule/`), and `step_layouts` gives
   the steps their addresses. Both are cached by shape. Prepared launches are cached, too, by
   kernel, α, β and number of multiprocessors (`launch_cache`).
4. `direct_path` is for page-locked memory: the steps are recorded once as `commands`, which C
   enqueues.
5. `staged_path` is for other memory: `staged_loop` enqueues the steps one by one.
6. `arrivals` reports rows that are final, and reads the times of finished steps between launches.

The `resident_cache` has operands that stay on the GPU between products, so that no step copies them
in: those that a caller names by a key (`keep`). If they and the buffers do not both fit, residents
are evicted.

A `team` is several GPUs that share a product. Their commands are cached for the next product of the
same plan. One call enqueues them, a step of each GPU at a time.

Events that can be timed delay a stream a little. So a command buffer has them only if a caller asks
for times, or enqueues a product without waiting for it (`team`): then only the GPU knows when it
ended.
"""
