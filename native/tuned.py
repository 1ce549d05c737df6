"""Tuned numbers: at most ten whose best value depends on the machine, and others that C needs.

Each has its meaning, its unit, and the machine and commit where it was measured, or "chosen" if no
measurement is recorded. C gets those that it needs as macros (`library`).

What is measured of a machine is in its profile (`scheduler/profile/`). All other numbers were
chosen, and say so.
"""

from typing import Final

# Waiting

AWAKE_SECONDS: Final = 200e-6  # seconds; EPYC, 2 cores; 30894bc
"""Time for which a waiting thread spins before it sleeps: mostly the next task follows soon. With
0.5 ms a service on two cores answers up to a tenth fewer products of 128³ to 512³ a second."""

COPIERS_AWAKE_SECONDS: Final = 500e-6  # seconds; H100 and H200, 16 cores; d973f4f
"""The same for threads that copy to and from a GPU. With 0.2 ms they would sleep between the copies
in and out of a product: 25 MB take up to a fifth longer."""

# Copies in host memory, and to a GPU

STAGING_THREADS: Final = 12  # threads; H200, 16 cores; 00c1096
"""Most threads that copy to and from slabs, the caller included. Eight copy as fast as a link
transfers in one direction, 55 GB/s."""

# The CPU's part

MIN_BLOCK_TERMS: Final = 1 << 21  # terms, M N K; H100, 16 cores; 1603ae0
"""Smallest block worth a thread: some 60 µs. Threads share a product of at least four such blocks.
A thread takes 0.1 ms to wake up, more if its core is busy: half as large a product takes up to
twice as long with threads that must wake up as without. (In a loop of one shape threads stay awake;
then smaller blocks would be up to 1.5 times as fast.)"""

NARROW_COLUMNS: Final = 128  # columns; H200, 16 cores; 5e3d0e4
"""Columns of C a thread below which its block would read only short pieces of B's rows."""

NARROW_TIMES: Final = 8  # elements; H200, 16 cores; 5e3d0e4
WIDE_TIMES: Final = 64  # elements; H200, 16 cores; 5e3d0e4
"""Least ratio of the elements of B to those of all threads' copies of C for K to be cut: with short
pieces of rows, and without. In float64 128x512x65536 takes 24 ms with K cut and 42 with C cut,
64x8192x4096 27 and 14."""

# Others that C needs, which hardly depend on the machine

NAP_SECONDS: Final = 20e-6  # seconds; chosen
"""Sleep between two polls of what no thread signals; it lasts about 80 µs."""

PAUSES: Final = 32  # pause instructions; chosen
"""Pauses between two polls of the device, and between two looks at the clock."""

TEMPORARY_ELEMENTS: Final = 1 << 18  # elements; chosen
"""Largest temporary of a block whose type BLAS lacks: its C, or a converted part of A or B."""

MACROS: Final = {
    "AWAKE_NANOSECONDS": round(AWAKE_SECONDS * 1e9),
    "COPIERS_AWAKE_NANOSECONDS": round(COPIERS_AWAKE_SECONDS * 1e9),
    "NAP_NANOSECONDS": round(NAP_SECONDS * 1e9),
    "PAUSES": PAUSES,
    "TEMPORARY_ELEMENTS": TEMPORARY_ELEMENTS,
}
"""The numbers that the C of all libraries is compiled with."""
