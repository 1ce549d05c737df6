"""How a product begins: what of it comes in first, and how much keeps the GPU busy meanwhile."""

from dataclasses import dataclass
from math import sqrt
from typing import Final

FEEDING_OPERATIONS: Final = 1000
"""Operations for each byte of A and B at which a link of 55 GB/s and a GPU of 56 TFLOP/s take
equally long."""

FAR_BYTES: Final = 64 << 10
NEAR_BYTES: Final = 32 << 10
"""Parts of rows that lie FAR_BYTES apart or further take the device up to twice as long to copy as
whole ones, unless they are a multiple of NEAR_BYTES long: seen on an H200's host."""

LEADING_SHARE: Final = 0.5
"""Share of C that may come first in any case."""

LEADING_COLUMN_BYTES: Final = 4 << 20
LEADING_COLUMN_PARTS: Final = 4
"""B comes in for some of its columns first if these are so many bytes at least, in so many parts at
most."""

SLOW_BYTES: Final = 48 << 10
"""Where rows lie so far apart, parts of them take the device a quarter longer to copy."""

SQUARE_SHARE: Final = 0.75
"""For how much of the copies' time kernels may take, at most, where A is as small as B, to let A
stream: beyond, a first panel that goes through K in steps is faster, unless its parts are slow."""

MIN_DRAIN_BYTES: Final = 4 << 20
"""Bytes of A and C in the smallest panel where the copies rule, and of a C that may leave whole."""

DEEP_BYTES: Final = 128 << 10
"""Bytes of a row of A from which on it may be copied in parts; those of shorter ones take the GPU
half as long again to copy as whole rows."""


@dataclass(frozen=True, slots=True)
class Lead:
    """What the first steps compute.

    Attributes:
        rows: Rows of the first panel.
        columns: Columns of B that come first; the panel's other columns follow.
    """

    rows: int
    columns: int


def streams_a(
    m: int, n: int, item_bytes: int, gpu_share: float = 1.0, *, staged: bool = False
) -> bool:
    """Whether A is not much smaller than B, and both take longer to copy in than the kernels.

    The smaller A is, the longer; and a quarter longer, if it is as small as B.

    Args:
        m: Rows of A.
        n: Columns of B.
        item_bytes: Bytes of an element.
        gpu_share: Share of the GPU's multiprocessors.
        staged: Whether copies go through slabs.
    """
    square = 1.0 if staged or n * item_bytes >= SLOW_BYTES else SQUARE_SHARE
    copied = _find_side(item_bytes, gpu_share) * (m + n)
    operations = 2 * n * max(m, n, n / square)
    return 2 * n <= 3 * m and operations < copied


def count_feeding_rows(n: int, k: int, item_bytes: int, gpu_share: float) -> int:
    """Rows of the first panel that keep the GPU busy while B arrives, and they with it.

    r rows make 2 N r operations for each N + r elements of B and A. Where the GPU is held to some
    multiprocessors, fewer keep it busy: more would only add to what each step through K costs.

    Args:
        n: Columns of B.
        k: Columns of A. More rows than that make a C that is longer than B.
        item_bytes: Bytes of an element.
        gpu_share: Share of the GPU's multiprocessors.
    """
    side = _find_side(item_bytes, gpu_share)
    beyond = 2 * n - side
    rows = int(n * side / beyond) if beyond > 0 else k
    return max(1, min(rows, int(k * min(1.0, 2 * gpu_share))))


def count_most_leading(m: int, k: int, item_bytes: int, gpu_share: float) -> int:
    """The most rows of the first panel for which the kernels have work left while their C leaves.

    It leaves when all of B is there, and beside it nothing may be left to do but copy C out.

    Args:
        m: Rows of C.
        k: Columns of A.
        item_bytes: Bytes of an element.
        gpu_share: Share of the GPU's multiprocessors.
    """
    return max(1, int(m * max(LEADING_SHARE, 1 - _compare_out(k, item_bytes, gpu_share))))


def leads_columns(n: int, item_bytes: int, gpu_share: float) -> bool:
    """Whether few of B's columns are many enough to begin with.

    A square of A's rows and B's columns makes the most operations for each element of them. Where
    its side is a small part of all columns, few rows of all columns keep the GPU as busy; where
    only large parts of the columns are fast to copy, there is nothing to choose.

    Args:
        n: Columns of B.
        item_bytes: Bytes of an element.
        gpu_share: Share of the GPU's multiprocessors.
    """
    if n < 4 * find_quantum(n, item_bytes):
        return False
    return 4 * _find_side(item_bytes, gpu_share) >= n


def choose_square(
    m: int, n: int, k: int, item_bytes: int, gpu_share: float, *, tile_n: int
) -> Lead:
    """About as many rows as columns that keep the GPU busy, before rows fill their waves.

    At most a share of C: the kernels want work left while it leaves. Half of the columns at least,
    if it is not for that.

    Args:
        m: Rows of C.
        n: Columns of B.
        k: Rows of B.
        item_bytes: Bytes of an element.
        gpu_share: Share of the GPU's multiprocessors.
        tile_n: Columns of which a thread block computes some rows.
    """
    columns = min(n, max(int(_find_side(item_bytes, gpu_share)), n // 2))
    rows = min(m, count_feeding_rows(columns, k, item_bytes, gpu_share))
    most = LEADING_SHARE * m * n
    scale = sqrt(min(1.0, most / (rows * columns)))
    quantum = max(tile_n, find_quantum(n, item_bytes))
    columns = min(n, max(1, round(scale * columns / quantum)) * quantum)
    return Lead(max(1, min(rows, int(most / columns))), columns)


def find_rest_width(n: int, columns: int, item_bytes: int, *, tile_n: int) -> int:
    """How many of the columns behind those that lead follow at a time: about half, in whole tiles.

    Args:
        n: Columns of B.
        columns: Those that lead.
        item_bytes: Bytes of an element.
        tile_n: Columns of which a thread block computes some rows.
    """
    tiles = -(-(n - columns) // tile_n)
    return max(-(-tiles // 2) * tile_n, find_quantum(n, item_bytes))


def comes_in_longer(m: int, n: int, k: int) -> bool:
    """Whether A and B take longer to copy than C."""
    return m * n < k * (m + n)


def count_leading_parts(n: int, k: int, item_bytes: int, gpu_share: float) -> int:
    """Parts of B's columns that the first panel takes, one after the other.

    More than one where C takes longer to copy out than to compute: it should begin early.

    Args:
        n: Columns of B.
        k: Rows of B.
        item_bytes: Bytes of an element.
        gpu_share: Share of the GPU's multiprocessors.
    """
    if _compare_out(k, item_bytes, gpu_share) <= 1:
        return 1
    most = n // find_quantum(n, item_bytes)
    return max(1, min(LEADING_COLUMN_PARTS, most, n * k * item_bytes // LEADING_COLUMN_BYTES))


def find_quantum(columns: int, item_bytes: int) -> int:
    """Columns of a matrix in page-locked memory of which multiples are copied as fast as all.

    Args:
        columns: Columns that there are.
        item_bytes: Bytes of an element.
    """
    return NEAR_BYTES // item_bytes if columns * item_bytes >= FAR_BYTES else 1


def goes_deep(m: int, n: int, k: int, item_bytes: int, wave_rows: int) -> bool:
    """Whether a wave of tiles covers all rows, C is soon copied out, and parts of K are long.

    Then each panel of fewer rows would take a wave's time as well, and the steps through K only
    one wave's together. Parts of short rows of A take longer to copy than whole ones.

    Args:
        m: Rows of C.
        n: Columns of C.
        k: Columns of A.
        item_bytes: Bytes of an element.
        wave_rows: Rows that the tiles of a wave cover.
    """
    if item_bytes == 2:  # its sums lose digits each time they leave the kernel
        return False
    return m <= wave_rows and m * n * item_bytes <= MIN_DRAIN_BYTES and k * item_bytes >= DEEP_BYTES


def _find_side(item_bytes: int, gpu_share: float) -> float:
    """Rows of A, and as many columns of B, that take as long to copy in as to multiply."""
    return FEEDING_OPERATIONS * gpu_share * item_bytes


def _compare_out(k: int, item_bytes: int, gpu_share: float) -> float:
    """How many times as long C takes to copy out as to compute."""
    return _find_side(item_bytes, gpu_share) / (2 * k)
