"""Memory for bodies and products, stored or not: the arena, and files where that has none.

- `memory_limit` says how much memory may be taken. `slab` makes a piece of it; `slabs` makes all of
  an arena's, and gives them back. An `extent` is a range of bytes in one, and counts who holds it,
  such as the cache of stored matrices. `arena` hands them out, has slabs made ahead of use and idle
  ones given back, evicts and refuses.
- A `mapped_file` is memory where the arena has none.
- `leases` are memory that callers on this host map themselves.

The rules of the arena:

- A slab is a sealed memfd, which cannot shrink or grow. Threads make its pages, one slab ahead of
  use, and never past a control group's limit less a reserve.
- An extent lies in one slab, because CUDA refuses a copy that spans two registrations. It counts
  its holders: socket, engine, disk, matrix. Each lets go only when it certainly no longer touches
  the memory, and the last release frees it.
- The engine gets each slab's descriptor, maps it, and page-locks all of it once, in the background
  (`scheduler/engine/arena.py`). Until then its matrices are staged.
- Memory is given back by whole slabs: unlocked by the engine, acknowledged, punched out, closed.
- A matrix that finds no memory evicts others that are also on disk; otherwise it goes through a
  mapped file; otherwise it is refused (507).
- A lease is a slab of its own. It counts until the engine has let go of it.
"""
