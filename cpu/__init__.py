"""The CPU's way to a product: blocks in both dimensions over one pool of threads.

Read in this order: threads (how many), blocks (which ranges), products (one block), operands
(what is refused), gemm (all of it), alone (what is too small to be shared).
"""
