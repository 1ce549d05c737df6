"""Products of matrices in host memory on a GPU: copies in, kernels and copies out overlap.

A product (`host_product`) is a list of `steps`, made from a `Cut` of its rows (`panels`) within the
device `buffers`. `schedule` predicts the time of a list, `cuts` chooses the fastest cut. At run
time `pipeline` takes the product, `arena` allocates device memory, `places` gives each step its
addresses, `flow` enqueues copies and kernels from the `launch_cache`, and `arrivals` reports
finished rows and measured times.
"""
