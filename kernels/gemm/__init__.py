"""Products of matrices on a GPU.

`dispatch` takes a product and chooses its module by the kernel; `operands` says how matrices lie.

- `launch`: tiled kernels, one block a tile.
- `bulk`: the kernel that Hopper's copy engine feeds, which needs `tensor_maps`. `tails` divides its
  last wave along K (stream-K).
- `tensor`: float32 products from three bfloat16 terms of each element; `terms` is memory for these.
- `half`: 16-bit elements on tensor cores.
- `cublas`: NVIDIA's kernels; `partitions` limits them to some multiprocessors.

`prepared` makes a launch ready once: function, grid, tensor maps and arguments in memory. Then one
call of the driver enqueues it. docs/notes/memory.md compares this with CUDA graphs.
"""
