"""Products in one call, and plans: no file, no row and no sync.

1. `matmul` checks key and query.
2. `matmul_body` receives the matrices into the arena (`request_memory`).
3. The product waits in the lane (`jobs/lane.py`). A caller that leaves stops it.
4. `product_answer` says how it was computed; the result is sent from where it lies.

In memory that a caller on this host shares, no byte is sent: `leases` gives it, `lease_socket`
hands out its descriptor, `leased_matmul` multiplies in it (`leased_schemas`). `plan` only says who
would compute which rows (`plan_schemas`).
"""
