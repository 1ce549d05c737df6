"""The way of products to the engines, for jobs and for products in one call.

Each product waits in the `engine_queue` until it is sent, and may be stopped; then it is one of the
`running`, here and on nodes alike. `host_lanes` finds which devices of this machine may compute a
product, once for each shape, and assigns them. With a cluster, `cluster_lanes` finds where a
product ends first.
"""
