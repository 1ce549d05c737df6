"""What a cluster costs and brings, in the order of use; `make bench-cluster` runs it here.

`engines` starts this machine's engine and Ray's nodes over the same memory, `overhead` sends the
same product through both in turns, `jobs` posts many to a service with and without nodes, `worth`
asks the model when another node pays; `pages` writes docs/scale.md's tables from the results.
"""
