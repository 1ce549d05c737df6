"""The arena: shared memory in which matrices are received, computed, and sent from.

In the order in which memory is made: `memory_limit` says how much may be taken, `slab` how large
slabs are, and makes one, `slab_supply` makes slabs ahead of use and gives idle ones back,
`extent_table` decides where an extent lies (`memory.extent` counts who holds it), `arena` hands
out, evicts and refuses.

The rules:

- A slab is a sealed memfd, which cannot shrink or grow. Threads make its pages, one slab ahead of
  use, and never past a control group's limit less a reserve.
- An extent lies in one slab, because CUDA refuses a copy that spans two registrations. It counts
  its holders: socket, engine, disk, matrix. Each lets go only when it certainly no longer touches
  the memory, and the last release frees it.
- The engine gets each slab's descriptor, maps it, and page-locks all of it once, in the background
  (`scheduler/engine/arena.py`). Until then its matrices are staged.
- Memory is given back by whole slabs: unlocked by the engine, acknowledged, punched out, closed.
- A matrix that finds no memory evicts others that are also on disk; otherwise it goes through a
  mapped file (`memory.request_memory`); otherwise it is refused (507).
- A lease is a slab of its own. It counts until the engine has let go of it.
"""
