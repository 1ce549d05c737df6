"""How the rows of a product are cut into panels that stream through a GPU.

Rows travel in panels of whole waves: kernels start a round of tiles at a time, and a part of a
round costs as much as a full one. The last panels shrink, down to one wave, so that little is
left to copy back once the last kernel is done.
"""

from dataclasses import dataclass
from math import ceil
from typing import Final

from wavetrim.kernels.feeding import (
    FEEDING_OPERATIONS,
    MIN_DRAIN_BYTES,
    count_leading_parts,
    find_quantum,
    goes_deep,
    streams_a,
)

PANELS: Final = 16
"""Panels that a product is cut into while each still has a sensible size."""

MIN_PANEL_BYTES: Final = 4 << 20
"""Bytes of A and C in a panel below which nothing is won: the host enqueues its copies and launches
in 40 µs, and the link takes 10 µs for each copy beside its bytes."""

MIN_STAGED_PANEL_BYTES: Final = 4 << 20
"""The same where copies go through slabs: threads of their own enqueue these."""

MIN_DEEP_PANEL_BYTES: Final = 16 << 20
"""The most that this becomes where K is deep: the copies for a panel should take as long as a wave
of tiles, which takes no less with few tiles than with many."""

MAX_PANEL_BYTES: Final = 128 << 20
"""Bytes of A and C in a panel above which filling and draining the pipeline takes too long."""

COMPUTE_BOUND_SIZE: Final = 256
"""N and K, for each byte of an element, from which on the kernels and not the copies take long."""

SPLIT_SHARE: Final = 4
"""Parts of a wave that the last panels may be, where the kernel splits such waves among all slots:
smaller ones cost more to put together than they take less to copy out."""

AROUND: Final = (0.5, 2.0)
CLOSE: Final = (0.7, 1.15)
"""How many rows may be taken for each that is wanted, so that they fill their waves: of a panel,
and of the first one. A part of a wave costs much of a whole one where K is taken in steps, even if
all slots share it."""


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
        slots: Thread blocks that run at the same time on the whole GPU.
        split_item_bytes: Bytes that the kernel puts beside each element of A and B that it
            multiplies, whole tiles of them; 0 for most kernels.
        planned_rows: Rows after which another device is to have computed the others; 0 for all.
        splits_tail: Whether the kernel shares a partly filled wave among all slots.
        staged: Whether copies go through slabs.
        gpu_share: Share of the GPU's multiprocessors that the kernel may use.
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
    gpu_share: float = 1.0

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
    def least_rows(self) -> int:
        """Rows of the smallest panel that is worth its launch: a wave, or part of one if shared."""
        if not self.splits_tail:
            return self.wave_rows
        return max(1, self.wave_rows // self.tile_m // SPLIT_SHARE) * self.tile_m

    @property
    def least_bytes(self) -> int:
        """Bytes of A and C that an ordinary panel has at least."""
        shares = SPLIT_SHARE if self.splits_tail else 1
        wave_products = self.slots * self.tile_m * self.tile_n * self.k
        return count_least_bytes(wave_products, shares, staged=self.staged)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of A and of C."""
        return (self.k + self.n) * self.item_bytes

    @property
    def is_compute_bound(self) -> bool:
        """Whether the kernels are likely to take longer than the copies."""
        return min(self.n, self.k) >= COMPUTE_BOUND_SIZE * self.item_bytes

    @property
    def goes_deep(self) -> bool:
        """Whether all rows go through K together, step by step."""
        return goes_deep(self.m, self.n, self.k, self.item_bytes, self.wave_rows)

    @property
    def leading_parts(self) -> int:
        """Parts of B's columns that the first panel takes in turn; 1 where it takes all."""
        if self.split_item_bytes or self.streams_a or self.goes_deep:
            return 1
        parts = count_leading_parts(self.n, self.k, self.item_bytes, self.gpu_share)
        return min(parts, self.tiles_per_tile_row)

    @property
    def a_quantum(self) -> int:
        """Columns of A of which a multiple is copied as fast as whole rows."""
        return 1 if self.staged else find_quantum(self.k, self.item_bytes)

    @property
    def streams_a(self) -> bool:
        """Whether what comes in is A, most of all, and takes longer than the kernels.

        Then the first panel need not begin before all of B is there.
        """
        if self.goes_deep:
            return False
        return streams_a(self.m, self.n, self.item_bytes, self.gpu_share, staged=self.staged)


def count_least_bytes(wave_products: int, shares: int, *, staged: bool) -> int:
    """Bytes of A and C that an ordinary panel has at least.

    Args:
        wave_products: Products of two elements in a wave of tiles.
        shares: Parts that a wave can be cut into.
        staged: Whether copies go through slabs.
    """
    if staged:
        return MIN_STAGED_PANEL_BYTES
    while_computing = 2 * (2 * wave_products // shares) // FEEDING_OPERATIONS  # in and out
    return min(max(MIN_PANEL_BYTES, while_computing), MIN_DEEP_PANEL_BYTES)


def choose_panel_rows(problem: PanelProblem) -> int:
    """Rows of an ordinary panel: the whole waves that fill best, near the wanted size.

    Or parts of one, where all slots share it and the copies take longer than the kernels.
    """
    row_bytes = problem.row_bytes
    panel_bytes = problem.m * row_bytes // PANELS
    wanted_bytes = min(max(panel_bytes, problem.least_bytes), MAX_PANEL_BYTES)
    if problem.splits_tail and problem.streams_a and not problem.staged:
        wanted_bytes = min(max(wanted_bytes, 2 * panel_bytes), MAX_PANEL_BYTES)
        parts = round(wanted_bytes / (problem.least_rows * row_bytes))
        if parts < SPLIT_SHARE:
            return min(problem.m, max(1, parts) * problem.least_rows)
    if problem.is_compute_bound:
        wanted_bytes = min(max(wanted_bytes, problem.wave_rows * row_bytes), MAX_PANEL_BYTES)
    return round_to_waves(problem, max(1, wanted_bytes // row_bytes))


def round_to_waves(problem: PanelProblem, rows: int, near: tuple[float, float] = AROUND) -> int:
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


def cut_rows(problem: PanelProblem, first_rows: int, panel_rows: int) -> list[range]:
    """Cut M into panels: one of `first_rows`, then `panel_rows`, at last halving.

    They halve to one wave where the kernels rule, or to part of one if all slots share it, and to a
    megabyte where the copies do; so small, too, are those beyond the planned rows.
    """
    quantum = problem.least_rows
    tiles = MIN_DRAIN_BYTES // (problem.row_bytes * problem.tile_m)
    drain_rows = max(1, tiles) * problem.tile_m
    if problem.is_compute_bound:
        # Where A streams, kernels have time to share still fewer tiles.
        if problem.splits_tail and problem.streams_a:
            quantum = min(quantum, drain_rows)
    else:
        # Of few multiprocessors a wave is too little: the host takes longer to enqueue its panel.
        quantum = min(drain_rows, max(1, drain_rows // quantum) * quantum)
    panels = [range(min(first_rows, problem.likely_rows))]
    while panels[-1].stop < problem.m:
        start = panels[-1].stop
        left = problem.likely_rows - start
        if left <= 0:
            left = min(quantum, problem.m - start)
        size = min(panel_rows, left, max(left // 2 // quantum, 1) * quantum)
        panels.append(range(start, start + size))
    return panels
