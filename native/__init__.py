"""What `kernels/` and `cpu/` share: tuned numbers, element types, compiled C and its threads.

`tuned` has the numbers whose best value depends on the machine, for Python and C of every folder.
`element_types` adds to NumPy what it lacks about bfloat16 and complex numbers.

`library` compiles C on first use, by $CC, cc, gcc or clang, into the folder of compiled kernels.
The container image has the libraries next to their sources
(`python -m wavetrim.service.libraries`); the wheel is pure Python. If the folder cannot be written,
a temporary one of this process is used (`writable`). Without a compiler, or if the folder is
mounted noexec, there is no library (`errors`). Then Python and CUDA do the same more slowly, after
one warning, which `wavetrim calibrate` shows as well.

`pool` has threads for tasks in C, `waiting` lets them sleep, and `call_threads` has threads for
calls of Python. A process has two pools: for copies, and for blocks.

- Threads spin for 0.2 ms after a task, copy threads for 0.5 ms, because the next task follows soon.
  They yield meanwhile, and sleep as soon as another thread has used their core.
- Each thread for blocks sleeps on a core of its own, not the caller's, if there are enough: some
  Linux kernels wake a thread on its waker's busy core, where it waits for the end of a tick.
- All have the priority of their process. If other threads use the cores, one of ours loses its core
  for 3 to 4 ms at a time, and delays whatever waits for it. The system counts the threads that can
  run (/proc/loadavg). While others want more than half of the cores the machine is *crowded*
  (`waiting.c`): then our threads hardly spin, and the driver makes small copies.
"""
