"""Products in a caller's own process: `wavetrim.matmul`, `plan` and `empty`.

`matmul` reads `arrays` and `stacks` by NumPy's rules and runs them on the process's one `machine`,
made, forked and ended in `process`; `plan` plans only; `empty` gives arrays that the GPU reads
itself.

Plans are kept by shape. BLAS has its threads back between products. Products that one thread
computes best are NumPy's.
"""
