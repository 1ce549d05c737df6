"""Matrices in host memory through a GPU: copies in, kernels and copies out at the same time.

`pipeline` runs products. `panels`, `feeding` and `leading` cut one (`host_product`) into `steps`;
`buffers`, `pieces`, `places` and `arena` say where each step works in device memory; `flow`
enqueues them from a `launch_cache`, and `arrivals` and `spans` say what has come back and what took
how long. `sharing` leaves the last rows to another device.
"""
