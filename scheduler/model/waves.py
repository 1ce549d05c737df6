"""Tiles, slots, waves and the tail: how a GPU rounds work up.

A kernel cuts C into tiles and computes each in one thread block. The GPU runs `slots` blocks at a
time; one such round is a *wave*. The last wave, the *tail*, costs as much as a full one, unless the
kernel splits its tiles along K among all slots (stream-K: Osama et al., 2023). Then it costs about
its filled share, and adding up the parts.
"""

from dataclasses import dataclass

from wavetrim.kernels.gemm.tails import divide_tiles


def divide_up(amount: int, size: int) -> int:
    """⌈amount / size⌉."""
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

    def count_tiles(self, rows: int) -> int:
        """Blocks that cover `rows` rows of C."""
        return divide_up(rows, self.tile_m) * self.tiles_per_tile_row

    def count_waves(self, rows: int) -> int:
        """Waves that compute `rows` rows of C: ⌈tiles / slots⌉."""
        return divide_up(self.count_tiles(rows), self.slots)

    def count_split_waves(self, rows: int, steps_k: int) -> float:
        """Time of `rows` rows, in waves, if the kernel may split the tail along K.

        At most `count_waves`, and never less for more rows. Launches divide tiles by the same rule.

        Args:
            rows: Rows of C.
            steps_k: Steps along K of a tile.
        """
        return divide_tiles(self.count_tiles(rows), steps_k, self.slots).steps / steps_k

    def count_tail_tiles(self, rows: int) -> int:
        """Blocks of the last wave: `slots` if it is full, 0 without rows."""
        tiles = self.count_tiles(rows)
        return tiles - (self.count_waves(rows) - 1) * self.slots if tiles else 0

    def tail_utilization(self, rows: int) -> float:
        """Filled share of the last wave: 1 if it is full, 0 without rows."""
        return self.count_tail_tiles(rows) / self.slots

    def rows_in_waves(self, waves: int) -> int:
        """Largest number of rows in `waves` waves, in whole rows of tiles."""
        return waves * self.slots // self.tiles_per_tile_row * self.tile_m
