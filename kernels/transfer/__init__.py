"""Copies between host memory and a GPU.

Copies are commands, which C submits with the launches (`native/commands.c`, `host_library`):

- *Page-locked* rows: the GPU reads and writes them itself, in one transfer without a CPU core.
  `pinned` locks memory, and knows what is locked; it asks CUDA about other memory.
- *Pageable* memory: a `stage` copies it in pieces of up to 1 MiB through page-locked slabs, on the
  memory node next to the GPU (`nodes`). The driver copies small products, and on a crowded machine
  (`wavetrim.native`) some others.

- `native/pieces.c`: a matrix of any strides, cut into pieces. Each passes through a slab.
- `native/stage.c`: threads that each take one piece after the other, so that a thread without a
  core delays its own piece only. To the GPU a slab is filled while others are transferred. From
  the GPU transfers run ahead, even into the next matrices, and slabs are emptied as they arrive.
  Commands ask and wait. The stage calls the driver itself (`native/driver.c`), on CuPy's streams
  and events, so both keep their order.

`abandon` waits for what has begun, so no memory is freed while it is copied. The threads are woken
when a product with pageable operands begins. Without a C library the driver copies all memory:
slower, because the launching thread waits for each copy (`pipeline/plain_path.py`). Calibration
then measures these rates.
"""
