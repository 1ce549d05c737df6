"""Costs and gains of a cluster, in the order of use; `make bench-cluster` runs it.

`engines` starts this machine's engine and Ray's nodes over the same memory, `overhead` sends the
same product through both in turns, `jobs` posts many jobs to a service with and without nodes.
"""
