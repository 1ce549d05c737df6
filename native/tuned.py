"""Tuned numbers: those whose best value depends on the machine, but for those named below.

Each has a line of meaning, its unit, and the machine and the commit that it was measured at, or
"chosen" where no measurement is recorded. C gets those that it needs as macros (`library`).

What is elsewhere, and why:

- `scheduler/profile/estimate.py`: the machine that is assumed until `wavetrim calibrate` has
  measured this one.
- `scheduler/profile/joint.py`: the same for links that were not measured together.
- `kernels/catalog.py` and `kernels/schedule/cuts.py`: candidates, among which times decide.
- `kernels/cuda/order.cuh`: the order of tiles, which only the compiler needs.
- `scheduler/planning/team_curves.py`: what only several GPUs need.
- Numbers that were chosen and do not depend on the machine: limits of memory, capacities of
  caches, weights and thresholds of what is learned from runs. Each says so where it is used.
"""

from typing import Final

# Waiting

AWAKE_SECONDS: Final = 200e-6  # seconds; EPYC, 2 cores; 30894bc
"""Time for which a waiting thread polls before it sleeps: the next task mostly follows soon. With
0.5 ms a service on two cores answers up to a tenth fewer products of 128³ to 512³ a second."""

COPIERS_AWAKE_SECONDS: Final = 500e-6  # seconds; H100 and H200, 16 cores; d973f4f
"""The same for threads that copy to and from a GPU. With 0.2 ms they fall asleep between the copies
in and out of a product: 25 MB take up to a fifth longer."""

NAP_SECONDS: Final = 20e-6  # seconds; chosen
"""Sleep between two polls of what no thread signals; the system makes about 80 µs of it."""

PAUSES: Final = 32  # pause instructions; chosen
"""Pauses between two polls of the device, and between two looks at the clock."""

# Copies in host memory, and to a GPU

PART_BYTES: Final = 128 << 10  # bytes; chosen
"""Part of a copy, or of rows to be summed, that a thread takes at a time."""

STAGING_THREADS: Final = 12  # threads; H200, 16 cores; 00c1096
"""Most threads that copy to and from slabs, the caller included; eight copy as fast as a link of
55 GB/s transfers one way."""

SLAB_BYTES: Final = 1 << 20  # bytes; chosen
"""Size of a page-locked slab, through which pageable memory is copied."""

SLABS: Final = 24  # slabs; chosen
"""Slabs of each direction: each thread fills one while its last is transferred."""

SMALL_PRODUCT_BYTES: Final = 12 << 20  # bytes; chosen
"""Largest A, B and C together that are copied whole before the first transfer. If their layout
forbids that, the calling thread stages them alone."""

AWAKE_PRODUCT_BYTES: Final = 512 << 20  # bytes; chosen
"""Largest A, B and C together for which the calling thread awaits transfers without naps: they take
about 10 ms, a nap 0.1 ms."""

# The GPU's part

MIN_DEPTH: Final = 256  # columns of A; chosen
"""Shortest part of K to prefer if GPU memory is short: each part reads and writes C again."""

FIX_UP_STEPS: Final = 5  # steps of 16 along K; H200; cd73791
"""Cost of splitting a last wave along K, as partial sums go through memory: 3 to 7 steps at
1024³…8192³, once 12, with tiles of 128x256x16."""

LEAST_SPLIT_K: Final = 128  # columns of A; chosen
"""Smallest K that is computed from bfloat16 splits. Below it memory bandwidth is the limit, so sums
in float64 cost no time and are more accurate."""

# The CPU's part

MAX_BLOCK_FLOPS: Final = 1 << 33  # operations; chosen
"""Largest block: about a tenth of a second, so that a product can be cancelled."""

MIN_BLOCK_TERMS: Final = 1 << 21  # terms, M N K; H100, 16 cores; 1603ae0
"""Smallest block worth a thread: some 60 µs. A product is shared from four such blocks on. A thread
takes 0.1 ms to wake up, more where it finds its core taken, so among other products one of half
that size takes up to twice as long as in the calling thread. (In a loop of one shape, where threads
are awake, blocks of a quarter would be up to 1.5 times as fast for the smallest of these.)"""

ELEMENT_TERMS: Final = 12  # terms; chosen
"""Cost to a thread of reading or writing an element that other threads used meanwhile, in terms of
arithmetic: on an H200's host 8 if it is in the caches, 20 if it is in memory (8 GB/s)."""

BLOCKS_PER_THREAD: Final = 4  # blocks; chosen
"""Most blocks for each thread, if they stay large: more than one, because cores differ in speed."""

PACKING_WEIGHT: Final = 48  # rows or columns; chosen
"""Cost for BLAS to pack a block's part of B (or A), in rows (or columns) of arithmetic: 32 on an
H200's host by calibration, 4 to 12 on an EPYC with AVX-512."""

NARROW_COLUMNS: Final = 128  # columns; H200, 16 cores; 5e3d0e4
"""Columns of C for each thread below which its block reads short pieces of B's rows."""

NARROW_TIMES: Final = 8  # elements; H200, 16 cores; 5e3d0e4
WIDE_TIMES: Final = 64  # elements; H200, 16 cores; 5e3d0e4
"""Elements of B for each element of all threads' copies of C from which K is cut: with short pieces
of rows, and without. At 128x512x65536 in float64 cutting takes 24 ms and blocks of C take 42, at
64x8192x4096 27 and 14."""

STREAMED_ROW_BYTES: Final = 256  # bytes; H200, 16 cores; 5c3a76f
"""Longest row of A with which a C that no cache holds is written past the caches. With a longer one
arithmetic takes longer than memory: in float64 rows of 192 bytes take 1.8 times as long without, of
256 1.3, in float32 1.0 to 1.1; on two cores of an EPYC 0.9 to 1.1."""

TEMPORARY_ELEMENTS: Final = 1 << 18  # elements; chosen
"""Largest temporary of a block whose type BLAS lacks: its C, or what of A or B is converted at a
time."""

MOST_TERMS: Final = 1 << 16  # terms, M N K; chosen
"""Largest product of any type but float32 and float64 that the calling thread computes alone."""

# Plans

SPLIT_GAIN: Final = 0.05  # share of seconds; H200, 16 cores; 0e5a6d6
"""Least gain that a split must promise over the better single device, which is the steadier choice.
Twice this if copies are staged, because they want the CPU's cores as well."""

MACROS: Final = {
    "AWAKE_NANOSECONDS": round(AWAKE_SECONDS * 1e9),
    "COPIERS_AWAKE_NANOSECONDS": round(COPIERS_AWAKE_SECONDS * 1e9),
    "NAP_NANOSECONDS": round(NAP_SECONDS * 1e9),
    "PAUSES": PAUSES,
    "PART_BYTES": PART_BYTES,
    "STREAMED_ROW_BYTES": STREAMED_ROW_BYTES,
    "TEMPORARY_ELEMENTS": TEMPORARY_ELEMENTS,
}
"""The numbers that the C of all libraries is compiled with."""
