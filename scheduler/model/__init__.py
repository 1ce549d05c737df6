"""What rows of a product cost on each device.

`waves` counts tiles and waves; `cost` is a curve of seconds over rows, never decreasing; `cpu`
gives the CPU's, `gpu_curve` the GPU's, `curves` both for one product. `corrections` multiply a
curve by what earlier runs of its class showed.

- The GPU's curve is the time of a schedule: the list of steps that `kernels/pipeline/cuts.py` finds
  fastest, timed by the recurrence of `kernels/pipeline/schedule.py` at the rates that calibration
  measured, and a call's fixed cost. The pipeline runs the same list.
- The wave is what the staircase shows, not what the occupancy calculator says: `slots` is measured,
  since one block can already saturate a multiprocessor. A kernel that splits its last wave along K
  pays for the filled share of it and a fix-up, by the rule by which it is launched
  (`kernels/gemm/tails.py`). Held to some multiprocessors, a kernel has its slots on them only
  (cuBLAS on multiples of 8: `kernels/gemm/partitions.py`).
- The CPU's curve is a line: the call, B to be read, and for each row its arithmetic and its
  elements of C, or their writing if that takes longer. BLAS copies A, which counts as some more
  columns. A single row takes as long as B is read.
- There is a link for each kind of memory. Pageable operands are staged by threads, which both ways
  share; pinned ones are copied by the GPU, both ways at once. How much longer a copy takes while
  the other way is busy (duplex) is measured for both, and so is what copies lose at their start.
- Contention (`CpuShare`): how many threads compute and copy in a split, and what both parts take
  from each other. The CPU part slows copies, and copies slow the CPU part while they are under way.
  A short GPU part lasts as long as the CPU's threads take to start; from pageable memory these
  start late.
"""
