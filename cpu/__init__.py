"""Products on the CPU: blocks of C, computed by one pool of threads.

A product comes to `gemm`, which has `operands` checked and decides how it is computed. `blocks`
cuts it, once for each shape, for as many of the cores that `threads` finds as it is worth. Sizes of
blocks are tuned in `native/tuned.py`.

A product too small to share is NumPy's, in the calling thread (`products.multiply_alone`).

float32, float64, the complex types of both and bfloat16 go to threads in C (`native_team`), which
call the BLAS that `blas` finds through the C `library`, held to one thread each, and never the
interpreter, except for the next rows. Threads of Python's would take its lock one after the other,
and the thread that launches kernels wants it at the same time. BLAS's own threads are not used:
after each product they spin for 0.1 s, on cores that copies and the next product want. A product
whose rows are taken part by part, or that reports, is a `native_call`. Any other is one call of the
library; all about it but its memory is `prepared` once.

- `native/calls.c`: the calls. A caller wakes a few threads, those wake others, and each begins at
  once; one that comes too late finds nothing, and nobody waits for it. A call returns when no
  thread has its arrays any more, however it ends.
- `native/blas.c`: a block as a matrix, or as a vector, which BLAS multiplies in another way. One
  row times B is cut along K: each thread reads B as it lies in memory, and their sums are added in
  the end.
- `native/bfloats.c`: a block of bfloat16, widened a part of K at a time for BLAS, or by the CPU's
  tiles (AMX, `native/tiles.c`) where a short trial finds them faster.
- `native/sums.c`: sums of rows, for checks, by the same threads (`block_sums`).

On a machine with a GPU these threads are the least urgent of all (`native/pool.c`).

All else goes to threads in Python (`python_team`), which compute a `cut` product block by block
(`products`): other element types, matrices that BLAS does not take as they lie, K = 1, and all
products without a C compiler or an OpenBLAS, after one warning, or in a forked process, which has
none of the threads. `model` names the CPU, `errors` are what is refused.
"""
