"""Copies between host memory and a GPU.

`staging` decides for each copy. *Page-locked* rows the GPU reads and writes itself (`direct`): one
transfer, no core at work, and never a byte between the rows of a result. A whole product from such
memory is a list of commands, which C submits (`native/commands.c`). `pinned` page-locks
matrices. Whether memory is page-locked is asked each time, of CUDA unless `pinned` locked it and it
still is.

*Pageable* memory goes through a stage, one for each direction (`stages` says what it is asked for),
in pieces of 4 MiB through page-locked slabs, on the memory node that the GPU is next to (`nodes`).
Small products are copied whole (`bounce`), and then run as from page-locked memory; those that
share rows or have elements apart go through the stage, in pieces of 2 MiB. A stage is C (`native/`,
loaded by `host_library`, walked by `native_stage`), because a piece takes less time than Python's
threads need to hand each other the interpreter's lock, which the launching thread wants as well.

`peers` lets GPUs read each other's memory.

- `native/copies.c` (`host_copies`): threads of a pool share each copy between the caller's layout
  and a slab; `host_library` says how many. Rows of up to 4 KiB are stored past the caches, from
  which the copy engine would have to fetch each line.
- `native/slabs.c`: one matrix, piece by piece. Inwards a slab is filled while others are
  transferred. Outwards transfers run ahead, into the next matrices, too, and are emptied as they
  arrive.
- `native/stage.c`: a thread for each direction walks from matrix to matrix; Python only asks and
  waits. It calls the driver itself (`native/driver.c`), with CuPy's streams and events, so both
  keep their order.

`copies` are those on their way: they keep matrices and events alive, so no copy is under way when
its memory goes. `abandon` waits for what has begun. The threads are woken as a product with
pageable operands begins. Without a C library CUDA copies pageable memory itself: slower, since the
launching thread waits for each copy. Calibration then measures the link as it is.
"""
