"""Products in a caller's own process: `wavetrim.matmul`, `plan` and `empty`.

`matmul` takes `arrays` and `stacks` by NumPy's rules and computes them on the only `machine` of the
process, which `process` creates, ends, and replaces in forked processes. `plan` only plans.
`empty` creates arrays that the GPU reads itself.

NumPy computes products of the CPU alone that need no plan, in several threads at once; a fork waits
for all of them. All other products are planned and run one at a time (`planned`), by an executor
that the first of them creates. A product whose like was computed before (`known`) needs neither
NumPy's rules nor a plan. BLAS gets its threads back between products.
"""
