"""What `kernels/` and `cpu/` share: tuned numbers, element types, compiled C and its threads.

`tuned` holds numbers whose best value depends on the machine, for Python and C of every folder, and
says where others are. `element_types` says what NumPy does not know about them.

`library` compiles C where it first runs, by $CC, cc, gcc or clang, and keeps the result with the
compiled kernels. The container image has the libraries next to their sources
(`python -m wavetrim.service.libraries`), and the wheel stays pure Python. Without a compiler, or if
the folder is mounted noexec, there is no library (`errors`). Python and CUDA then do the same more
slowly, after one warning, which `wavetrim calibrate` shows as well.

`pool` has threads for tasks in C, `waiting` lets them sleep, `streaming.h` has copies that bypass
the caches, and `call_threads` has threads for calls of Python. A pool is opened twice, with two
priorities: once for copies, once for blocks.

- Threads stay awake for 0.2 ms after a task, because the next one follows soon. Threads that copy
  do so for 0.5 ms, or only 0.05 if a CPU part wants the cores as well.
- Threads for blocks each sleep on a core of their own, not the caller's, if there are enough: some
  Linux kernels wake a thread on its waker's busy core, where it waits for the end of a tick.
- On a machine with a GPU, threads for blocks yield to all others (idle class if the system lets
  them, and nice 19). So threads that copy for the GPU, launch its kernels or answer requests get a
  core at once; a thread that is merely nice keeps its core for up to 3 ms. Without a GPU, threads
  for blocks have their share (docs/notes/cpu-part.md).
"""
