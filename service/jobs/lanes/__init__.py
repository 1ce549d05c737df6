"""The way of products to the engines, for jobs and for products in one call.

In the `engine_queue` each product has a `turn` until it is sent; then it is one of the `running`,
here and on nodes alike. What an engine has to do is its `load`. `host_lanes` finds the possible
places of products on the devices of this machine, once for each shape, and places them. With a
cluster, `cluster_lanes` finds where a product ends first.
"""
