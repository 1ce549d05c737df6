"""The project's C code: `library` compiles it on first use, `pool` runs its tasks on threads.

`call_threads` is a thread pool for Python calls. Layout: `pool.h` the C side of the pool,
`waiting.h` how its threads wait.
"""
