"""Products of matrices on a GPU.

`dispatch` takes a product and chooses its module by the kernel; `operands` says how matrices lie.

- `launch`: tiled kernels, one block a tile.
- `bulk`: the kernel that Hopper's copy engine feeds, which needs `tensor_maps`. `tails` divides its
  last wave among the blocks, `partials` is memory for the sums that they exchange.
- `tensor`: float32 products from three bfloat16 terms of each element; `terms` is memory for these.
- `half`: 16-bit elements on tensor cores.
- `cublas`: NVIDIA's kernels; `partitions` limits them to some multiprocessors.

`prepared` makes a launch ready once: function, grid, tensor maps and arguments in memory. One call
of the driver then enqueues it, as it would a CUDA graph, which docs/notes/memory.md compares.
"""
