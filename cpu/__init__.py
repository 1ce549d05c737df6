"""Products on the CPU: blocks of C, computed by one pool of threads.

`gemm` takes a product, has its `operands` checked and decides who computes it. `blocks` cuts it,
once for each shape, for as many of the cores that `threads` finds as are worth waking. Sizes of
blocks are tuned in `native/tuned.py`.

A product too small to share is NumPy's, in the calling thread (`products.multiply_alone`). In a
caller's process most others of the CPU alone are NumPy's, too, by BLAS's threads
(`numpy_products`).

float32, float64, the complex types of both and bfloat16 go to threads in C (`native_team`), which
call a BLAS held to one thread (`blas` finds it) through the C `library` and never need the
interpreter. Python's own threads would take its lock one after the other, and the thread that
launches kernels wants it at the same time. BLAS's own threads are not used beside a GPU: after each
product they spin for 0.1 s, on cores that copies and the next product want. One that reports is a
call of the library for each block that the calling thread computes. Any other is one call; all
about it but its memory is `prepared` once.

- `native/calls.c`: the calls. A caller wakes a few threads, those wake others, and each begins at
  once; a thread that comes too late finds nothing, and nobody waits for it. However a call ends, it
  returns when no thread uses its arrays any more.
- `native/blas.c`: a block as a product of matrices, or of matrix and vector, which BLAS has a
  function of its own for. One row times B is cut along K: each thread reads B as it lies in memory,
  and their sums are added in the end.
- `native/streamed.c`: a block of a C that no cache holds, with a short K. BLAS computes it piece by
  piece in a core's own cache, and stores that bypass the caches write each piece once.
- `native/bfloats.c`: a block of bfloat16, a part of K at a time: widened for BLAS, or by the CPU's
  tiles (AMX, `native/tiles.c`) if a short trial finds them faster.
- `native/sums.c`: sums of rows, for checks, by the same threads (`block_sums`).

All else goes to threads in Python (`python_team`), which compute it block by block (`products`):
other element types, and layouts that BLAS does not take. So does every product without a C compiler
or an OpenBLAS, after one warning, and in a forked process, which has none of the C threads. `model`
names the CPU and its caches, `errors` are what is refused.
"""
