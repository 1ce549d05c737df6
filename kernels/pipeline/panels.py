"""A product as the pipeline cuts it, and how its rows become panels.

Rows travel in panels of whole waves: kernels start a round of tiles at a time, and a part of a
round costs as much as a full one. The last panels shrink, so that little is left to copy back once
the last kernel is done.
"""

from dataclasses import dataclass
from math import ceil
from typing import Final

FAR_BYTES: Final = 64 << 10
NEAR_BYTES: Final = 32 << 10
"""Parts of rows that lie FAR_BYTES apart or further are slow to copy, unless they are a multiple of
NEAR_BYTES long: seen on an H200's host at 3e85058."""


@dataclass(frozen=True, slots=True)
class PanelProblem:
    """What decides the cut.

    Attributes:
        m: Rows of A and C, at least 1.
        n: Columns of B and C, at least 1.
        k: Columns of A and rows of B, at least 1.
        item_bytes: Bytes of an element.
        tile_m: Rows of C that one thread block computes.
        tile_n: Columns of C that one thread block computes.
        tile_k: Columns of A that it takes at a time.
        slots: Thread blocks that run at the same time.
        split_item_bytes: Bytes that the kernel puts beside each element of A and B that it
            multiplies, whole tiles of them; 0 for most kernels.
        planned_rows: Rows after which another device is to have computed the others; 0 for all.
        splits_tail: Whether the kernel shares a partly filled wave among all slots.
        staged: Whether copies go through slabs.
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
    planned_rows: int = 0
    splits_tail: bool = False
    staged: bool = False

    @property
    def likely_rows(self) -> int:
        """Rows that are planned for the GPU; those beyond are there in case the others are slow."""
        return self.planned_rows or self.m

    @property
    def tiles_per_tile_row(self) -> int:
        """Thread blocks that cover `tile_m` rows of C."""
        return -(-self.n // self.tile_n)

    @property
    def wave_rows(self) -> int:
        """Rows that the tiles of one wave cover; one row of tiles where that takes more waves."""
        return max(1, self.slots // self.tiles_per_tile_row) * self.tile_m

    @property
    def sums_in_parts(self) -> bool:
        """Whether K may be taken in steps: sums of float16 lose digits each time they leave."""
        return self.item_bytes > 2

    @property
    def a_quantum(self) -> int:
        """Columns of A of which a multiple is copied as fast as whole rows."""
        return self._find_quantum(self.k)

    @property
    def b_quantum(self) -> int:
        """Columns of B and C of which a multiple is copied as fast as whole rows."""
        return self._find_quantum(self.n)

    def _find_quantum(self, columns: int) -> int:
        far = not self.staged and columns * self.item_bytes >= FAR_BYTES
        return NEAR_BYTES // self.item_bytes if far else 1


def round_to_waves(problem: PanelProblem, rows: int, near: tuple[float, float]) -> int:
    """The number of rows near `rows` with the fullest waves.

    Of equally full ones (to a hundredth) the nearest to `rows`; at least one row of tiles, and at
    most all of M.

    Args:
        problem: The product.
        rows: How many are wanted.
        near: The fewest and the most that are near, as shares of them.
    """
    tiles, wanted = problem.tiles_per_tile_row, rows / problem.tile_m
    fewest = max(1, ceil(near[0] * wanted))
    most = max(fewest, int(near[1] * wanted))
    first_wave = max(1, fewest * tiles // problem.slots)
    last_wave = -(-most * tiles // problem.slots)
    whole_waves = {wave * problem.slots // tiles for wave in range(first_wave, last_wave + 1)}
    choices = [size for size in whole_waves | {fewest, most} if fewest <= size <= most]

    def rate(tile_rows: int) -> tuple[float, int]:
        blocks = tile_rows * tiles
        filled = blocks / (-(-blocks // problem.slots) * problem.slots)
        return round(filled, 2), -abs(tile_rows * problem.tile_m - rows)

    return min(problem.m, max(choices, key=rate) * problem.tile_m)


def cut_rows(
    problem: PanelProblem, first_rows: int, panel_rows: int, last_rows: int
) -> list[range]:
    """Cut M into panels: one of `first_rows`, then `panel_rows`, at last halving to `last_rows`.

    As small as the last ones are those beyond the planned rows.
    """
    panels = [range(min(first_rows, problem.likely_rows))]
    while panels[-1].stop < problem.m:
        start = panels[-1].stop
        left = problem.likely_rows - start
        if left <= 0:
            left = min(last_rows, problem.m - start)
        size = min(panel_rows, left, max(left // 2 // last_rows, 1) * last_rows)
        panels.append(range(start, start + size))
    return panels
