"""Products on the CPU: blocks of C, computed by one pool of threads.

`gemm` takes a product: `operands` checks it, `blocks` cuts it into blocks for the cores that
`threads` counts. float32 and float64 are computed by C threads (`native_team`, one `native_call` a
product), which call the BLAS that `blas` finds, through the C `library`. All other products are
computed by Python threads (`python_team`), block by block (`cut`, `products`). `block_sums` serves
the check of products; `model` names the CPU.
"""
