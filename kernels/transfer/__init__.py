"""Bytes between host memory and a GPU.

`pinned` page-locks matrices, which the GPU then reads and writes itself (`direct`). Others go
through a stage: `staging` decides, `stages` says what a stage is asked for, `native_stage` walks in
C (`native/`, loaded by `host_library`) through `slabs` of page-locked memory, and `host_copies` are
the threads that share in its copies (`copiers` says how many). Without a C library CUDA's own
copies serve (`stages`). `copies` are those on their way.
"""
