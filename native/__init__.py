"""What compiles the project's C where it first runs (`library`), and threads for all of it.

`pool` is for tasks in C, `call_threads` make calls of Python's.
"""
