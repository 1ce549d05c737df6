"""How a thread block divides its tile, and the threads, shared memory and macros that follow.

Imports neither NumPy nor CuPy, like the catalog.
"""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass

_VECTOR_BYTES = 16
_TERM_BYTES = 2  # of a bfloat16
_TERMS = 3
_BARRIER_BYTES = 8
_WARPGROUP = 128


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows (m) and columns (n) of C that a thread block computes, and its step along K (k)."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def macros(self) -> dict[str, str]:
        """Macros of the tile."""
        return {"BLOCK_M": str(self.m), "BLOCK_N": str(self.n), "BLOCK_K": str(self.k)}


@dataclass(frozen=True, slots=True)
class Tiling(ABC):
    """How a kernel with dynamic shared memory divides its tile. The fields become macros."""

    @property
    def can_limit_sms(self) -> bool:
        """Whether a launch can be limited to some of the multiprocessors.

        True if blocks are persistent and each fills a multiprocessor.
        """
        return True

    @property
    def entries(self) -> tuple[str, ...]:
        """Functions of the compiled kernel; the first computes the product.

        By default one for operands aligned to 16 bytes, and one for any.
        """
        return ("multiply", "multiply_unaligned")

    @property
    def macros(self) -> dict[str, str]:
        """Macros in addition to those of the tile."""
        return {name.upper(): str(int(value)) for name, value in asdict(self).items()}

    @abstractmethod
    def count_threads(self, tile: Tile) -> int:
        """Threads of a block."""

    @abstractmethod
    def count_shared_bytes(self, tile: Tile, item_bytes: int) -> int:
        """Dynamic shared memory of a block in bytes."""


@dataclass(frozen=True, slots=True)
class RegisterTiling(Tiling):
    """How the register kernel divides its tile.

    Attributes:
        thread_m: Rows of C that one thread computes.
        thread_n: Columns of C that one thread computes.
        stages: Tiles of A and B in shared memory at the same time.
        blocks_per_sm: Blocks that must fit a multiprocessor; limits the registers of a thread.
        wide_sums: Whether products of float32 are summed in float64.
        persistent: Whether each block computes several tiles; then any number of blocks works.
    """

    thread_m: int
    thread_n: int
    stages: int
    blocks_per_sm: int
    wide_sums: bool = False
    persistent: bool = False

    @property
    def can_limit_sms(self) -> bool:
        """Whether blocks are persistent and each fills a multiprocessor."""
        return self.persistent and self.blocks_per_sm == 1

    def count_threads(self, tile: Tile) -> int:
        """Threads of a block."""
        return tile.m * tile.n // (self.thread_m * self.thread_n)

    def count_shared_bytes(self, tile: Tile, item_bytes: int) -> int:
        """Tiles of all stages; rows of A are padded by 16 bytes."""
        a_stride = tile.k + _VECTOR_BYTES // item_bytes
        return self.stages * (tile.m * a_stride + tile.k * tile.n) * item_bytes


@dataclass(frozen=True, slots=True)
class BulkTiling(Tiling):
    """How the bulk kernel divides its tile.

    Attributes:
        thread_m: Rows of C that one thread computes.
        thread_n: Columns of C that one thread computes.
        stages: Tiles of A and B in shared memory at the same time.
        registers: Registers of a computing thread, once the copying warpgroup has released its own.
    """

    thread_m: int
    thread_n: int
    stages: int
    registers: int

    @property
    def entries(self) -> tuple[str, ...]:
        """One, for operands aligned to 16 bytes."""
        return ("multiply",)

    def count_threads(self, tile: Tile) -> int:
        """Computing threads, and the warpgroup that copies."""
        return tile.m * tile.n // (self.thread_m * self.thread_n) + _WARPGROUP

    def count_shared_bytes(self, tile: Tile, item_bytes: int) -> int:
        """Tiles of all stages, each with two barriers."""
        return self.stages * ((tile.m + tile.n) * tile.k * item_bytes + 2 * _BARRIER_BYTES)


@dataclass(frozen=True, slots=True)
class WarpTiling(Tiling):
    """How the float64 tensor kernel divides its tile.

    Attributes:
        warp_m: Rows of C that one warp computes.
        warp_n: Columns of C that one warp computes.
        step: Steps of K in one instruction: 8 or 16.
        stages: Tiles of A and B in shared memory at the same time.
        blocks_per_sm: Blocks that must fit a multiprocessor; limits the registers of a thread.
        can_limit_sms: Whether a launch can be limited to some of the multiprocessors.
        persistent: Whether each block fills a multiprocessor and computes several tiles,
            `blocks_per_sm` at a time.
    """

    warp_m: int
    warp_n: int
    step: int
    stages: int
    blocks_per_sm: int
    can_limit_sms: bool = False
    persistent: bool = False

    def count_threads(self, tile: Tile) -> int:
        """Threads of a block."""
        return self.tiles_per_block * 32 * (tile.m // self.warp_m) * (tile.n // self.warp_n)

    def count_shared_bytes(self, tile: Tile, item_bytes: int) -> int:
        """Tiles of all stages for each tile of C; rows of A and B are padded by 4 elements."""
        stage_bytes = (tile.m * (tile.k + 4) + tile.k * (tile.n + 4)) * item_bytes
        return self.tiles_per_block * self.stages * stage_bytes

    @property
    def tiles_per_block(self) -> int:
        """Tiles of C that a block computes at the same time."""
        return self.blocks_per_sm if self.persistent else 1


@dataclass(frozen=True, slots=True)
class TermTiling(Tiling):
    """Steps of the float32 tensor kernel, which multiplies bfloat16 terms.

    Attributes:
        stages: Tiles of A and B in shared memory at the same time.
        chain: Instructions, of 16 steps of K each, whose largest products the tensor cores sum
            before an ordinary addition to the running sum.
        flush: Steps of the tile after which the running sum is added to the total.
        term_blocks: Blocks of the launches that make terms that must fit a multiprocessor.
    """

    stages: int
    chain: int
    flush: int
    term_blocks: int

    @property
    def entries(self) -> tuple[str, ...]:
        """The product, and the functions that decompose A and B."""
        return ("multiply", "decompose_rows", "decompose_columns")

    def count_threads(self, tile: Tile) -> int:
        """A warpgroup for each 64 rows of C, and one that copies."""
        return (tile.m // 64 + 1) * _WARPGROUP

    def count_shared_bytes(self, tile: Tile, item_bytes: int) -> int:
        """Terms of all stages, each with two barriers, and the totals of the tile of C."""
        stage_bytes = self.count_term_bytes(tile.m, tile.k) + self.count_term_bytes(tile.n, tile.k)
        return self.stages * (stage_bytes + 2 * _BARRIER_BYTES) + tile.m * tile.n * item_bytes

    @staticmethod
    def count_term_bytes(lines: int, depth: int) -> int:
        """Bytes of the terms of `lines` rows of A or columns of B; both sizes are whole tiles."""
        return lines * depth * _TERMS * _TERM_BYTES


@dataclass(frozen=True, slots=True)
class ClusterTiling(Tiling):
    """Steps of the 16-bit tensor kernel, whose blocks form clusters.

    Attributes:
        stages: Tiles of A and B in shared memory at the same time.
        cluster: Blocks that share out the tile of B.
    """

    stages: int
    cluster: int

    @property
    def entries(self) -> tuple[str, ...]:
        """One, for operands aligned to 16 bytes."""
        return ("multiply",)

    def count_threads(self, tile: Tile) -> int:
        """A warpgroup for each 64 rows of C, and one that copies."""
        return (tile.m // 64 + 1) * _WARPGROUP

    def count_shared_bytes(self, tile: Tile, item_bytes: int) -> int:
        """Tiles of all stages, each with two barriers, and memory to transpose 64 columns of C."""
        stage_bytes = (tile.m + tile.n) * tile.k * item_bytes
        return self.stages * (stage_bytes + 2 * _BARRIER_BYTES) + tile.m * 64 * item_bytes
