"""Predicts the time of a product's rows on each device.

`waves` counts tiles and waves. `cost` defines a curve: seconds over rows, never decreasing. `cpu`
describes the CPU, `gpu_curve` is the GPU's curve, `curves` builds both for a product. `corrections`
are factors on curves: the ratio of measured to predicted time in earlier runs. `device_runs` finds
them from runs that took about as long on the same device.

- The GPU's curve is the time of a schedule: the list of steps that `kernels/schedule/cuts.py` finds
  fastest, timed by the recurrence of `kernels/schedule/schedule.py` at calibrated rates, plus a
  call's fixed cost. The pipeline runs the same list.
- Slots are measured from a kernel's staircase of times, not taken from the occupancy calculator:
  one block can already saturate a multiprocessor. A kernel that splits its last wave along K pays
  for the filled share of it and for a fix-up, by the rule of its launch (`kernels/gemm/tails.py`).
  A kernel held to some multiprocessors has slots on these only (cuBLAS on multiples of 8:
  `kernels/gemm/partitions.py`).
- `cpu/blocks.py` decides how many threads share a product of the CPU alone. Several take at least
  the time of moving A, B and C; one takes that time in addition to its arithmetic.
- The CPU's curve is a line: the call, reading B, and for each row its arithmetic and its elements
  of C, or writing them if that takes longer. Packing A counts as additional columns. A single row
  takes the time of reading B.
- Each kind of memory has a link. Threads stage pageable operands, and both directions share them.
  The GPU copies pinned operands itself, both ways at the same time. Calibration measures duplex for
  both, and the time that copies lose at their start.
- Contention (`CpuShare`) is what GPU part and CPU part take from each other in a split. The CPU
  part slows copies, and copies slow the CPU part while they are under way. A GPU part takes at
  least as long as the CPU's threads take to start. The CPU part starts late: once the GPU's work
  is enqueued, or its first staged copies are under way.
"""
