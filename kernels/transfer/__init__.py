"""Copies between host memory and a GPU.

`staging` decides how to copy. Matrices in page-locked memory (`pinned`) are read and written by the
GPU itself (`direct`). Others go through a stage (`stages`): in C through page-locked slabs
(`native_stage`, `native/`, loaded by `host_library`) with the threads of `host_copies`, or by
CUDA's own pageable copies where there is no C library. `copies` are pending copies to wait for.
"""
