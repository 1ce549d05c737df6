"""Shared memory in which matrices live: received into, computed in, and sent from.

Read in the order in which an extent comes to be: `memory_limit` says what may be taken,
`slab_sizes` in which steps, `slab` makes it, `slab_supply` makes slabs ahead of use and gives those
back that `idle_slabs` finds, `free_ranges` and `placement` decide where an extent lies, `credit`
limits what is taken for bytes that were only announced, `extent` counts who holds it, `arena` hands
out, evicts and refuses (`errors`).

The rules:

- A slab is a sealed memfd, which cannot shrink or grow. Threads make its pages, one slab ahead of
  use, and never past a control group's limit less a reserve.
- An extent lies in one slab, because CUDA refuses a copy that spans two registrations. It counts
  its holders: socket, engine, disk, matrix. Each lets go only on proof that it touches the memory
  no more, and the last release frees it.
- The engine gets each slab's descriptor, maps it, and page-locks it once and whole in the
  background (`scheduler/engine/arena.py`). Until then its matrices are staged.
- Memory goes back by whole slabs: unlocked by the engine, acknowledged, punched out, closed.
- What finds no place evicts matrices that are on disk, too; then it goes through mapped files
  (`storage/memory/room.py`); then it is refused (507).
- A lease is a slab of its own. It counts until the engine has let go of it.
"""
