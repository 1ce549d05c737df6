"""Products in one call, and plans. They make no file and no row.

1. `matmul` receives the matrices into memory (`storage/matrices/intake.py`).
2. The product waits for the engine (`jobs/lanes/engine_queue.py`). A caller that leaves stops it.
3. The result is sent from where it lies, with headers that say how it was computed.

Matrices in a lease, memory that a caller on this host shares, are not sent at all: `leases` makes
it and hands out its descriptor, `leased_matmul` finds matrices in it.
`plan` only says who would compute which rows (`plan_schemas`), here, on a GPU that is named, or on
one that is described.
"""
