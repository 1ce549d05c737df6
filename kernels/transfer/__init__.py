"""Copies between host memory and a GPU.

`staging` decides for each part of an operand (`copies` describes parts, and copies under way):

- *Page-locked* rows: the GPU reads and writes them itself (`transfers`), in one transfer without a
  CPU core. If all operands of a product are page-locked, its transfers are commands, which C
  submits (`native/commands.c`). `pinned` locks memory, and knows what is locked; it asks CUDA about
  other memory.
- *Pageable* memory: a stage (`native_stage`) copies it in pieces of up to 1 MiB through page-locked
  slabs, on the memory node next to the GPU (`nodes`). The driver copies small products, and on a
  crowded machine (`wavetrim.native`) some others.

A stage is C (`host_library`). Python threads would hand on the interpreter's lock, which takes
longer than a piece, and the launching thread needs that lock, too.

- `native/pieces.c`: a matrix of any strides, cut into pieces. Each passes through a slab.
- `native/stage.c`: threads that each take one piece after the other, so that a thread without a
  core delays its own piece only. To the GPU a slab is filled while others are transferred. From
  the GPU transfers run ahead, even into the next matrices, and slabs are emptied as they arrive.
  Python only asks and waits. The stage calls the driver itself (`native/driver.c`), on CuPy's
  streams and events, so both keep their order.

A copy under way keeps its matrices and events alive, and `abandon` waits for what has begun, so no
memory is freed while it is copied. The threads are woken when a product with pageable operands
begins. Without a C library the driver copies pageable memory: slower, because the launching thread
waits for each copy. Calibration then measures these rates.
"""
