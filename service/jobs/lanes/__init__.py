"""The way of products to the engines, for jobs and for products in one call.

`lane` is that way: each product has a `turn`, and is `waiting` until it is sent. What an engine has
to do is its `load`. `host_lanes` places products on the devices of this machine; `choices` finds
the possible places, once for each shape. With a cluster, `cluster_lanes` asks `estimates` where a
product ends first; a `node_run` is a product at a node.
"""
