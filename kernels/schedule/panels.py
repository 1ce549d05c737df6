"""A product as the GPU cuts it: tiles, waves, panels of rows, and the parts that a cut makes of it.

A kernel cuts C into tiles and computes each in one thread block. The GPU runs `slots` blocks at a
time; one such round is a *wave*. The last wave, the *tail*, takes as long as a full one, unless the
kernel divides its tiles along K among all slots (stream-K: Osama et al., 2023). Then it takes about
the share of a wave that it fills, and the time to add up the parts.

A `Cut` is four numbers, and the list of parts follows from it: the planner predicts the time of
that list, and the pipeline runs it (`steps`).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from wavetrim.kernels.gemm.tails import divide_tiles
from wavetrim.kernels.spec import KernelSpec

if TYPE_CHECKING:
    from wavetrim.kernels.schedule.buffers import Buffers

DEPTH_QUANTUM: Final = 64
"""Parts of K are multiples of this: a multiple of every kernel's step along K."""


def divide_up(amount: int, size: int) -> int:
    """⌈amount / size⌉."""
    return -(-amount // size)


@dataclass(frozen=True, slots=True)
class PanelProblem:
    """Everything that decides how a product is cut.

    Attributes:
        m: Rows of A and C, at least 1.
        n: Columns of B and C, at least 1.
        k: Columns of A and rows of B, at least 1.
        item_bytes: Bytes of an element.
        tile_m: Rows of C that one thread block computes.
        tile_n: Columns of C that one thread block computes.
        tile_k: Step of a thread block along K.
        slots: Thread blocks that run at the same time.
        term_item_bytes: Bytes of bfloat16 terms for each element of A and B, in whole tiles; 0
            for kernels without terms.
        stream_k_tail: Whether the kernel divides a partly filled wave among all slots.
        stream_k_short: Whether the kernel divides a product of less than one wave among all slots.
        b_resident: Whether B is on the GPU already, so that no step copies it in.
        is_straight: Whether it takes the straight path, as one step (`pipeline/straight.py`).
    """

    m: int
    n: int
    k: int
    item_bytes: int
    tile_m: int
    tile_n: int
    tile_k: int
    slots: int
    term_item_bytes: int = 0
    stream_k_tail: bool = False
    stream_k_short: bool = False
    b_resident: bool = False
    is_straight: bool = False

    @property
    def tiles_per_tile_row(self) -> int:
        """Thread blocks that cover `tile_m` rows of C."""
        return divide_up(self.n, self.tile_n)

    @property
    def sums_in_parts(self) -> bool:
        """Whether K may be cut to start sooner; not in 16 bits, where each part would round."""
        return self.item_bytes > 2

    def count_tiles(self, rows: int) -> int:
        """Tiles of some rows of C: ⌈rows / tile rows⌉ · ⌈N / tile columns⌉."""
        return divide_up(rows, self.tile_m) * self.tiles_per_tile_row

    def count_waves(self, rows: int) -> int:
        """Waves of some rows of C in one launch: ⌈tiles / slots⌉."""
        return divide_up(self.count_tiles(rows), self.slots)

    def find_waves(self, rows: int, columns: int, depth: int) -> float:
        """Time of one launch in waves: less than `count_waves` where the kernel divides the tail.

        Args:
            rows: Rows of C.
            columns: Columns of C.
            depth: Columns of A.
        """
        slots = self.slots
        tiles = -(-rows // self.tile_m) * -(-columns // self.tile_n)
        if self.stream_k_tail or (self.stream_k_short and tiles < slots):
            steps = -(-depth // self.tile_k)
            return divide_tiles(tiles, steps, slots).steps / steps
        return -(-tiles // slots)

    def find_rows_in_waves(self, waves: int) -> int:
        """Largest number of rows that `waves` waves compute, in whole rows of tiles."""
        return waves * self.slots // self.tiles_per_tile_row * self.tile_m

    def find_tail_utilization(self, rows: int) -> float:
        """Filled share of the last wave: 1 if it is full, 0 without rows."""
        tiles = self.count_tiles(rows)
        return (tiles - (self.count_waves(rows) - 1) * self.slots) / self.slots if tiles else 0.0


@lru_cache(maxsize=1024)
def describe_product(
    spec: KernelSpec,
    shape: tuple[int, int, int],
    slots: int,
    *,
    b_resident: bool,
    is_straight: bool = False,
) -> PanelProblem:
    """A kernel's product, described alike for the planner and for the pipeline.

    Args:
        spec: The kernel.
        shape: M, N and K.
        slots: Thread blocks that run at the same time.
        b_resident: Whether B is on the GPU already.
        is_straight: Whether it takes the straight path, as one step.
    """
    (m, n, k), tile = shape, spec.tile
    return PanelProblem(
        m=m, n=n, k=k, item_bytes=spec.item_bytes,
        tile_m=tile.m, tile_n=tile.n, tile_k=tile.k, slots=slots,
        # A shorter K is computed without terms.
        term_item_bytes=spec.term_item_bytes if k >= spec.least_k else 0,
        stream_k_tail=spec.stream_k_tail, stream_k_short=spec.stream_k_short,
        b_resident=b_resident, is_straight=is_straight,
    )  # fmt: skip


def cut_rows(problem: PanelProblem, first_rows: int, panel_rows: int) -> list[range]:
    """Cut M into panels of whole rows of tiles: `first_rows`, then `panel_rows`, then smaller ones.

    The last ones have a quarter of `panel_rows`, so that little is left to copy out after the last
    kernel.
    """
    tile_m, m = problem.tile_m, problem.m
    last_rows = min(panel_rows, max(1, round(panel_rows / 4 / tile_m)) * tile_m)
    panels, start = [], 0
    stop = min(first_rows, m)
    while start < m:
        panels.append(range(start, stop))
        start = stop
        size = (m - start) // 2 // last_rows * last_rows or last_rows
        stop = start + (size if size < panel_rows else panel_rows)
        stop = min(stop, m)
    return panels


class Cut(NamedTuple):
    """How a product is cut.

    Attributes:
        first_rows: Rows of the first panel, which may go along K in parts while B arrives.
        panel_rows: Rows of the panels after it; the last ones are smaller.
        depth: Part of K that the first panel takes at a time: K to wait for all of B.
        a_first: Whether all of the first panel's A is copied in before B, in whole rows. Else each
            part copies in what it needs.
    """

    first_rows: int
    panel_rows: int
    depth: int
    a_first: bool = False


Part: TypeAlias = tuple[range, range, range, range, bool]
"""One launch: C[rows, columns] ← A[rows, depth] · B[depth, columns], or added to C.

Its rows, columns and depth; the columns of A to copy in first, none if earlier parts did; and
whether it is the first part with this B[depth, columns]. A plain tuple: a new shape makes hundreds.
"""


def take_whole(problem: PanelProblem) -> Cut:
    """The cut with a single step."""
    return Cut(first_rows=problem.m, panel_rows=problem.m, depth=problem.k)


def list_parts(problem: PanelProblem, cut: Cut, buffers: "Buffers") -> list[Part]:
    """The parts of a product in order.

    Loops from the outermost: groups of columns (one group if B fits), panels of rows, K. The first
    panel goes along K in parts, so the GPU starts when the first rows of B have arrived.

    Args:
        problem: The product.
        cut: How it is cut.
        buffers: Buffers on the device, which may be smaller than the cut wants.
    """
    first, *panels = cut_rows(
        problem, min(cut.first_rows, buffers.rows), min(cut.panel_rows, buffers.rows)
    )
    depths = _divide(problem.k, buffers.depth)
    first_depths = _divide(problem.k, min(buffers.depth, cut.depth))
    cuts_k = buffers.depth < problem.k
    first_copies = first_depths
    if cut.a_first and not cuts_k:
        first_copies = [range(problem.k)] + [range(0)] * (len(first_depths) - 1)
    parts: list[Part] = []
    for columns in _divide(problem.n, buffers.columns):
        parts += [
            (first, columns, depth, copied, True)
            for depth, copied in zip(first_depths, first_copies, strict=True)
        ]
        parts += [(rows, columns, depth, depth, cuts_k) for rows in panels for depth in depths]
    return parts


def _divide(length: int, size: int) -> list[range]:
    """Ranges of at most `size` that cover 0…length."""
    return [range(start, min(start + size, length)) for start in range(0, length, size)]
