"""Everything that runs on a GPU: kernels, their compilation, and the ways to launch them.

Takes arrays and numbers; knows no jobs. CuPy is imported inside functions only, so that catalog,
compile and device work on a machine without a GPU.
"""
