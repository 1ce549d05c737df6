"""Products of matrices in host memory on a GPU: copies in, kernels and copies out overlap.

In the order of a product's way:

1. A small product takes the `straight` path: copies in, cuBLAS, a copy out, none of them cut.
2. `pipeline` takes any other product (`host_product`) with its cut.
3. `device_memory` has the buffers for the steps of the cut (`schedule/`). `prepared_steps` are the
   steps with their addresses and launches, cached by kernel, shape, cut and factors.
4. `command_path` records the steps once as `commands`; the `submission` of a `command_buffer` to C
   is one call. The GPU copies page-locked operands itself; others are staged (`transfer/`). The
   next product of a shape may skip all that (`command_product`).
5. Without the C library, `plain_path` takes one step after the other.

The `resident_cache` has operands that stay on the GPU between products, so that no step copies them
in: those that a caller names by a key (`keep`). If they and the buffers do not both fit, residents
are evicted.

A `team` is several GPUs that share a product. One call enqueues the commands of all, a step of each
GPU at a time. In an `exchange` each GPU copies in a part of B over its own link, and the rest from
the others.

Events that can be timed delay a stream a little. So commands have them only if a caller asks for
times, or enqueues a product without waiting for it (`team`): then only the GPU knows when it ended.
"""
