"""Tuned numbers: at most ten whose best value depends on the machine, and others that C needs.

Each has its meaning, its unit, and the machine and the commit that it was measured at, or "chosen"
where no measurement is recorded. C gets those that it needs as macros (`library`).

What is known of a machine is in its profile (`scheduler/profile/`). All other numbers were chosen,
and say so where they are used.
"""

from typing import Final

# Waiting

AWAKE_SECONDS: Final = 200e-6  # seconds; EPYC, 2 cores; 30894bc
"""Time for which a waiting thread polls before it sleeps: the next task mostly follows soon. With
0.5 ms a service on two cores answers up to a tenth fewer products of 128³ to 512³ a second."""

COPIERS_AWAKE_SECONDS: Final = 500e-6  # seconds; H100 and H200, 16 cores; d973f4f
"""The same for threads that copy to and from a GPU. With 0.2 ms they fall asleep between the copies
in and out of a product: 25 MB take up to a fifth longer."""

# Copies in host memory, and to a GPU

STAGING_THREADS: Final = 12  # threads; H200, 16 cores; 00c1096
"""Most threads that copy to and from slabs, the caller included; eight copy as fast as a link of
55 GB/s transfers one way."""

# The CPU's part

MIN_BLOCK_TERMS: Final = 1 << 21  # terms, M N K; H100, 16 cores; 1603ae0
"""Smallest block worth a thread: some 60 µs. A product is shared from four such blocks on. A thread
takes 0.1 ms to wake up, more where it finds its core taken, so among other products one of half
that size takes up to twice as long as in the calling thread. (In a loop of one shape, where threads
are awake, blocks of a quarter would be up to 1.5 times as fast for the smallest of these.)"""

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

# Others that C needs, which hardly depend on the machine

NAP_SECONDS: Final = 20e-6  # seconds; chosen
"""Sleep between two polls of what no thread signals; the system makes about 80 µs of it."""

PAUSES: Final = 32  # pause instructions; chosen
"""Pauses between two polls of the device, and between two looks at the clock."""

PART_BYTES: Final = 128 << 10  # bytes; chosen
"""Part of a copy, or of rows to be summed, that a thread takes at a time."""

TEMPORARY_ELEMENTS: Final = 1 << 18  # elements; chosen
"""Largest temporary of a block whose type BLAS lacks: its C, or what of A or B is converted at a
time."""

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
