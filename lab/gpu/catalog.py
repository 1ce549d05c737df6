"""The catalog of the probes' kernels, and what each is compiled with.

Imports neither NumPy nor CuPy, like the catalog of products.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SOURCES: Final = Path(__file__).parents[1] / "cuda"


@dataclass(frozen=True, slots=True)
class ProbeSpec:
    """A kernel that measures something; every GPU runs it.

    Attributes:
        label: Name in messages, such as "strided copy".
        source: File in lab/cuda/.
        entries: Functions in the file.
        settings: Macros to compile it with, as pairs.
    """

    label: str
    source: str
    entries: tuple[str, ...]
    settings: tuple[tuple[str, int], ...] = ()

    @property
    def folder(self) -> Path:
        """Folder of the probes' sources."""
        return _SOURCES

    @property
    def macros(self) -> dict[str, str]:
        """The settings as macros."""
        return {name: str(value) for name, value in self.settings}

    @property
    def keeps_order(self) -> bool:
        """Never: the assembler may reorder instructions."""
        return False

    @property
    def dynamic_shared_bytes(self) -> int:
        """None: shared memory is static."""
        return 0


STRIDED_COPY: Final = ProbeSpec("strided copy", "copy_strided.cu", ("copy",))
OFFSET_COPY: Final = ProbeSpec("offset copy", "copy_offset.cu", ("copy",))
PITCHED_COPY: Final = ProbeSpec("pitched copy", "copy_pitched.cu", ("copy",))
VECTOR_COPIES: Final = {
    loads: ProbeSpec(
        f"copy of vectors, {loads} a thread",
        "copy_vectors.cu",
        ("copy_1", "copy_2", "copy_4"),
        (("LOADS", loads),),
    )
    for loads in (1, 4)
}
"""By the number of vectors that a thread loads before its first store."""

LOADS: Final = ProbeSpec(
    "loads", "loads.cu", ("read_cached", "read_uncached", "read_only", "read_texture")
)
TRANSPOSES: Final = {
    name: ProbeSpec(f"{name} transpose", f"transpose_{name}.cu", ("transpose",))
    for name in ("naive", "shared", "padded")
}
BANKS: Final = ProbeSpec("bank conflicts", "banks.cu", ("read",))
TABLES: Final = ProbeSpec("table reads", "tables.cu", ("read_constant", "read_global"))
SPIN: Final = ProbeSpec("spin", "spin.cu", ("spin",))

REGISTER_THREADS: Final = 128
"""Threads of a block of the register probe."""

REGISTER_VALUES: Final = 96
"""Values in the registers of each of its threads."""

REGISTERS: Final = {
    blocks: ProbeSpec(
        f"registers for {blocks} blocks",
        "registers.cu",
        ("turn",),
        (("BLOCKS_PER_SM", blocks), ("THREADS", REGISTER_THREADS), ("VALUES", REGISTER_VALUES)),
    )
    for blocks in (2, 4, 6, 8)
}
"""By blocks a multiprocessor in the launch bounds: at most 255, 128, 80 and 64 registers."""


def list_probe_kernels() -> tuple[ProbeSpec, ...]:
    """All kernels of the probes."""
    singles = (STRIDED_COPY, OFFSET_COPY, PITCHED_COPY, LOADS, BANKS, TABLES, SPIN)
    return (*singles, *VECTOR_COPIES.values(), *TRANSPOSES.values(), *REGISTERS.values())
