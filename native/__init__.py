"""What `kernels/` and `cpu/` share: tuned numbers, element types, compiled C and its threads.

`tuned` has the numbers whose best value depends on the machine, for Python and C of every folder.
`element_types` adds to NumPy what it lacks about bfloat16 and complex numbers.

`library` compiles C where it first runs, by $CC, cc, gcc or clang, and keeps the result with the
compiled kernels. The container image has the libraries next to their sources
(`python -m wavetrim.service.libraries`), and the wheel stays pure Python. Where the folder cannot
be written, one for this process takes its place (`writable`). Without a compiler, or if the folder
is mounted noexec, there is no library (`errors`). Python and CUDA then do the same more slowly,
after one warning, which `wavetrim calibrate` shows as well.

`pool` has threads for tasks in C, `waiting` lets them sleep, `streaming.h` has copies that bypass
the caches, and `call_threads` has threads for calls of Python. A process opens a pool twice: for
copies, and for blocks.

- Threads stay awake for 0.2 ms after a task, those that copy for 0.5 ms, because the next task
  follows soon. They yield meanwhile, and sleep as soon as another thread has used their core.
- Threads for blocks each sleep on a core of their own, not the caller's, if there are enough: some
  Linux kernels wake a thread on its waker's busy core, where it waits for the end of a tick.
- All have the priority of their process. If other programs want the cores, a thread loses its core
  for 3 to 4 ms at a time, and so does whatever waits for it. `waiting.c` compares the time that
  work has taken with the processor time of its thread. After two products in a row that
  lost cores the machine counts as *crowded*, for up to 1.6 s. Then threads hardly poll, the driver
  makes small copies, and the calling thread computes small products.
"""
