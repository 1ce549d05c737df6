"""Products on the CPU: blocks of C, computed by one pool of threads.

`gemm` takes a product, checks its `operands` and decides which threads compute it. `threads` finds
the usable cores; `blocks` cuts a product for as many of them as are worth waking, once for each
shape. Numbers that depend on the machine are in `native/tuned.py`.

*NumPy*, in the calling thread, computes products that are too small to share
(`products.multiply_alone`). In a caller's process NumPy also computes most products that only the
CPU computes, by BLAS's threads (`numpy_products`).

*Threads in C* (`native_team`) compute float32, float64, the complex types of both and bfloat16.
They call a BLAS limited to one thread (`blas` finds it) through the C `library`, and never need the
interpreter's lock: Python threads would take it one after the other, while the thread that launches
kernels needs it, too. BLAS's own threads do not compute together with a GPU: after each product
they spin for 0.1 s, on cores that copies and the next product need. But if they spin already, after
a product of the caller's own, they compute the next one, too. What depends only on layouts is
`prepared` once. A product is one call of the library; if it reports progress, one call
for each block that the calling thread computes.

- `native/calls.c`: the calls. A caller wakes a few threads, those wake others, and each begins at
  once. Nobody waits for a thread that comes too late. A call returns, even with an error, only when
  no thread uses its arrays any more.
- `native/blas.c`: a block as a product of matrices (gemm), or of matrix and vector (gemv). One row
  times B is cut along K: each thread reads whole rows of B, and the partial sums are added.
- `native/streamed.c`: a block of a C that no cache holds, with a short K: written past the caches.
- `native/bfloats.c`: a block of bfloat16, a part of K at a time: widened for BLAS, or by the CPU's
  tiles (AMX, `native/tiles.c`) if a short trial finds them faster.
- `native/halves.c`: float16 widened, for checks (`halves`).

*Threads in Python* (`python_team`) compute all else block by block (`products`): other element
types, and layouts that BLAS does not accept. Without a C compiler or an OpenBLAS they compute all
products, after one warning, and in a forked process, which has no C threads. `model` names the CPU
and its caches, `errors` has what is refused.
"""
