"""Shared memory in which matrices live: received into, computed in, and sent from.

Read in the order in which an extent comes to be: memory_limit says what may be taken, slab makes
it, free_ranges and placement decide where an extent lies, extent counts who holds it, arena grows,
evicts and gives memory back.
"""
