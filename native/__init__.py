"""Compiles the project's C where it first runs (`library`), and has threads for all of it.

`tuned` holds all numbers whose best value depends on the machine, for Python and C of every folder.

`element_types` says of the types of elements what NumPy does not.

`library` takes $CC, cc, gcc or clang, and keeps what it made with the compiled kernels. The
container image has the libraries next to their sources (`python -m wavetrim.service.libraries`),
and the wheel stays pure Python. Without a compiler, or where the folder is mounted noexec, there is
no library (`errors`). Python and CUDA do the same more slowly then, after one warning, which
`wavetrim calibrate` shows as well.

`pool` are threads for tasks in C, `waiting` lets them sleep; `call_threads` make calls of Python's.
A pool is opened twice, with two priorities: once for copies, once for blocks of products.

- Threads stay awake for 0.2 ms after a task, because the next one follows soon; those that copy
  only 0.05 ms where a CPU part wants the cores as well.
- Threads for blocks sleep each on a core of its own, not the caller's, where there are enough: some
  kernels wake a thread on the busy core of its waker, where it waits for the end of a tick.
- On a machine with a GPU threads for blocks yield to all others (idle class where the system lets
  them, and nice 19). So the threads that copy for it, launch its kernels or answer requests get a
  core at once; one that is merely nice keeps its core for up to 3 ms. Without a GPU they have their
  share (docs/notes/cpu-part.md).
"""
