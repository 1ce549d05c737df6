"""The CPU's way to a product: blocks in both dimensions over one pool of threads.

A product comes to `gemm`, which has `operands` checked and decides by whom it is computed. `blocks`
cuts it, for as many cores as `threads` finds. float32 and float64 go to threads in C
(`native_team`; one `product` is a `native_call`), which call the BLAS that `blas` finds through the
`library` of native/. All else goes to threads in Python (`python_team`), which compute a `cut`
product block by block (`products`). `block_sums` are for checks; `model` names the CPU.
"""
