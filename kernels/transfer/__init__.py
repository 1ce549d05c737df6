"""Copies between host memory and a GPU.

`staging` decides for each part of an operand (`copies` says what that is, and when it is done):

- *Page-locked* rows: the GPU reads and writes them itself (`direct`), in one transfer without a CPU
  core, which never writes between the rows of a result. If all operands of a product are
  page-locked, its transfers are commands, which C submits (`native/commands.c`). `pinned`
  page-locks matrices and knows which are; of others it asks CUDA each time.
- *Pageable* memory: a stage (`stages`) copies it in pieces of up to 1 MiB through page-locked
  slabs, on the memory node next to the GPU (`nodes`). Small products, and on a crowded machine
  (`wavetrim.native`) others, are copied by the driver.

A stage is C (`native_stage`, loaded by `host_library`): handing the interpreter's lock from thread
to thread takes Python longer than a piece, and the launching thread wants that lock, too.

- `native/copies.c` (`host_copies`): a copy within host memory between any two layouts, which
  threads may share. Data that the GPU reads next bypass the caches, since the copy engine
  would have to fetch each line from there.
- `native/pieces.c`: a matrix, cut into pieces. Each passes through a slab.
- `native/stage.c`: threads that each take one piece after the other, so that one without a core
  delays its own piece only. Inwards a slab is filled while others are transferred; outwards
  transfers run ahead, even into the next matrices, and slabs are emptied as they arrive. Python
  only asks and waits. The stage calls the driver itself (`native/driver.c`), on CuPy's streams and
  events, so both keep their order.

A copy under way keeps its matrices and events alive, and `abandon` waits for what has begun, so no
memory is freed while it is copied. The threads are woken when a product with pageable operands
begins. Without a C library CUDA copies pageable memory itself: slower, because the launching thread
waits for each copy. Calibration then measures the link as it is.

`peers` lets GPUs read each other's memory.
"""
