"""Panels: how the rows of a product are cut.

Panels are whole waves, because a partly filled wave costs as much as a full one. The last panels
shrink, so that little is left to copy out after the last kernel.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Final

from wavetrim.kernels.gemm.splits import find_split_item_bytes
from wavetrim.kernels.spec import KernelSpec


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
        split_item_bytes: Bytes of bfloat16 splits for each element of A and B, in whole tiles; 0
            for kernels without splits.
        splits_tail: Whether the kernel divides a partly filled wave among all slots.
        splits_short: Whether the kernel divides a product of less than one wave among all slots.
        staged: Whether copies go through page-locked slabs.
        b_resident: Whether B is on the GPU already, so that no step copies it in.
    """

    m: int
    n: int
    k: int
    item_bytes: int
    tile_m: int
    tile_n: int
    tile_k: int
    slots: int
    split_item_bytes: int = 0
    splits_tail: bool = False
    splits_short: bool = False
    staged: bool = False
    b_resident: bool = False

    @property
    def tiles_per_tile_row(self) -> int:
        """Thread blocks that cover `tile_m` rows of C."""
        return -(-self.n // self.tile_n)

    @property
    def wave_rows(self) -> int:
        """Rows that the tiles of one wave cover, at least one row of tiles."""
        return max(1, self.slots // self.tiles_per_tile_row) * self.tile_m

    @property
    def sums_in_parts(self) -> bool:
        """Whether K is cut where memory does not force it. Not for halves: each step rounds."""
        return self.item_bytes > 2


@lru_cache(maxsize=1024)
def describe_product(
    spec: KernelSpec,
    shape: tuple[int, int, int],
    slots: int,
    *,
    staged: bool,
    b_resident: bool,
) -> PanelProblem:
    """What decides how a kernel's product is cut; the planner and the pipeline ask the same.

    Args:
        spec: The kernel.
        shape: M, N and K.
        slots: Thread blocks that run at the same time.
        staged: Whether copies go through page-locked slabs.
        b_resident: Whether B is on the GPU already.
    """
    (m, n, k), tile = shape, spec.tile
    return PanelProblem(
        m=m, n=n, k=k, item_bytes=spec.item_bytes,
        tile_m=tile.m, tile_n=tile.n, tile_k=tile.k, slots=slots,
        split_item_bytes=find_split_item_bytes(spec, k),
        splits_tail=spec.splits_tail, splits_short=spec.splits_short,
        staged=staged, b_resident=b_resident,
    )  # fmt: skip


_ROUGH_ROWS: Final = 512
"""Rows of tiles on each side that are looked at; chosen, as more than 200."""


@lru_cache(maxsize=1024)
def round_to_waves(problem: PanelProblem, rows: int, near: tuple[float, float]) -> int:
    """The number of rows near `rows` whose waves are fullest.

    If several are equally full (to a hundredth), the nearest to `rows`, then the smaller. At least
    one row of tiles, at most M.

    Args:
        problem: The product.
        rows: Wanted number of rows.
        near: Smallest and largest factor on `rows`.
    """
    tiles, wanted = problem.tiles_per_tile_row, rows / problem.tile_m
    # From 200 rows of tiles on the last wave is full to a hundredth, whichever is nearest.
    around = _ROUGH_ROWS + 2 * problem.slots // tiles
    fewest = max(1, ceil(max(near[0] * wanted, wanted - around)))
    most = max(fewest, int(min(near[1] * wanted, wanted + around)))
    first_wave = max(1, fewest * tiles // problem.slots)
    last_wave = -(-most * tiles // problem.slots)
    whole_waves = {wave * problem.slots // tiles for wave in range(first_wave, last_wave + 1)}
    choices = [size for size in whole_waves | {fewest, most} if fewest <= size <= most]

    def rate(tile_rows: int) -> tuple[float, int, int]:
        blocks = tile_rows * tiles
        filled = blocks / (-(-blocks // problem.slots) * problem.slots)
        return round(filled, 2), -abs(tile_rows * problem.tile_m - rows), -tile_rows

    return min(problem.m, max(choices, key=rate) * problem.tile_m)


def cut_rows(
    problem: PanelProblem, first_rows: int, panel_rows: int, last_rows: int
) -> list[range]:
    """Cut M into panels: `first_rows`, then `panel_rows`, finally halving down to `last_rows`."""
    panels = [range(min(first_rows, problem.m))]
    while panels[-1].stop < problem.m:
        start = panels[-1].stop
        left = problem.m - start
        size = min(panel_rows, left, max(left // 2 // last_rows, 1) * last_rows)
        panels.append(range(start, start + size))
    return panels
