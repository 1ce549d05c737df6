"""Products in a caller's own process: `wavetrim.matmul`, `plan` and `empty`.

`matmul` takes `arrays` and `stacks` by NumPy's rules and computes them on the only `machine` of the
process, which `process` creates, closes, and replaces in forked processes. `plan` only plans.
`empty` creates arrays that the GPU reads itself.

Plans are cached by shape. BLAS gets its threads back between products. NumPy computes products that
are too small for several threads, beside others; a fork waits for these, too (`own_turns`).
"""
