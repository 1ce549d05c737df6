"""Tiles, slots, waves and the tail: how a GPU rounds its work up.

A kernel cuts C into tiles, one thread block each. The GPU has `slots` places where a block can
run; it takes one round of blocks at a time, a *wave*. The last wave, the *tail*, costs as much as
a full one however few blocks it holds, unless the kernel splits its tiles along K among all
slots ("Stream-K": M. Osama and others, 2023): then it costs about its filled share, and what it
takes to add the parts up.
"""

from dataclasses import dataclass

from wavetrim.kernels.gemm.tails import divide_tiles


def divide_up(amount: int, size: int) -> int:
    """Pieces of `size` that cover `amount`: ⌈amount / size⌉."""
    return -(-amount // size)


@dataclass(frozen=True, slots=True)
class WaveGrid:
    """How rows of one product become waves on one GPU.

    Attributes:
        n: Columns of C.
        tile_m: Rows of the tile that one thread block computes.
        tile_n: Columns of that tile.
        slots: Blocks that run at the same time on the whole GPU.
    """

    n: int
    tile_m: int
    tile_n: int
    slots: int

    @property
    def tiles_per_tile_row(self) -> int:
        """Blocks that cover `tile_m` rows of C."""
        return divide_up(self.n, self.tile_n)

    @property
    def wave_rows(self) -> int:
        """Rows that one wave covers whole; one row of tiles where that takes more waves."""
        return max(1, self.slots // self.tiles_per_tile_row) * self.tile_m

    def count_tiles(self, rows: int) -> int:
        """Blocks that cover `rows` rows of C."""
        return divide_up(rows, self.tile_m) * self.tiles_per_tile_row

    def count_waves(self, rows: int) -> int:
        """Waves that compute `rows` rows of C: ⌈tiles / slots⌉."""
        return divide_up(self.count_tiles(rows), self.slots)

    def count_split_waves(self, rows: int, steps_k: int) -> float:
        """Waves' worth of time for `rows` rows where the kernel may split the tail along K.

        Never more than `count_waves`, and never less for more rows. The launch divides its tiles
        by the same rule.

        Args:
            rows: Rows of C.
            steps_k: Steps of K that a tile takes.
        """
        return divide_tiles(self.count_tiles(rows), steps_k, self.slots).steps / steps_k

    def count_tail_tiles(self, rows: int) -> int:
        """Blocks in the last wave: `slots` when it is full, 0 without rows."""
        tiles = self.count_tiles(rows)
        return tiles - (self.count_waves(rows) - 1) * self.slots if tiles else 0

    def tail_utilization(self, rows: int) -> float:
        """Filled share of the last wave, 0…1; 1 when it is full, 0 without rows."""
        return self.count_tail_tiles(rows) / self.slots

    def rows_in_waves(self, waves: int) -> int:
        """The most rows that `waves` waves can compute; whole rows of tiles only."""
        return self.rows_in_tiles(waves * self.slots)

    def rows_in_tiles(self, tiles: int) -> int:
        """The most rows that `tiles` blocks can compute; whole rows of tiles only."""
        return tiles // self.tiles_per_tile_row * self.tile_m
