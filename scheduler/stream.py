"""How the pipeline cuts a product into steps, as far as the GPU's curve depends on it.

`kernels/panels.py`, `kernels/leading.py` and `kernels/steps.py` decide the cut; this is its
outline, in a few operations, since a plan compares many kernels in less than a millisecond. A test
holds it against them.
"""

from dataclasses import dataclass, replace
from math import log2

from wavetrim.kernels.feeding import (
    MIN_DRAIN_BYTES,
    choose_square,
    comes_in_longer,
    count_feeding_rows,
    count_leading_parts,
    count_most_leading,
    find_rest_width,
    goes_deep,
    leads_columns,
    streams_a,
)
from wavetrim.kernels.panels import (
    CLOSE,
    COMPUTE_BOUND_SIZE,
    MAX_PANEL_BYTES,
    PANELS,
    SPLIT_SHARE,
    count_least_bytes,
)
from wavetrim.kernels.steps import cut_depth
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.waves import WaveGrid, divide_up


@dataclass(frozen=True, slots=True)
class Stream:
    """The cut of one product.

    Attributes:
        first_rows: Rows of the first panel, which goes through K in steps as B arrives, or through
            B's columns.
        first_steps: Steps of it.
        panel_rows: Rows of the panels behind it.
        last_rows: Rows of the last one, the smallest.
        by_columns: Whether each step of the first panel completes some columns of C.
        lead_share: Share of B's columns for which it goes through K in steps; the other columns
            follow.
        rest_steps: Steps of it for those.
    """

    first_rows: int
    first_steps: int
    panel_rows: int
    last_rows: int
    by_columns: bool = False
    lead_share: float = 1.0
    rest_steps: int = 0

    @property
    def lead_steps(self) -> int:
        """Steps through K."""
        return self.first_steps - self.rest_steps

    def count_steps(self, rows: int) -> int:
        """Steps for `rows` rows: the first panel's, one for each other, and those that halve."""
        if rows <= self.first_rows:
            return self.first_steps
        panels = divide_up(rows - self.first_rows, self.panel_rows)
        return self.first_steps + panels + round(log2(self.panel_rows / self.last_rows))


ONE_STEP = Stream(first_rows=1 << 60, first_steps=1, panel_rows=1 << 60, last_rows=1)
"""Everything at once."""


def outline_stream(
    problem: GemmProblem,
    grid: WaveGrid,
    *,
    splits_tail: bool,
    gpu_share: float = 1.0,
    cuts_columns: bool = True,
) -> Stream:
    """The cut of a product for one kernel.

    Args:
        problem: The product.
        grid: The kernel's tiles and slots.
        splits_tail: Whether the kernel shares a partly filled wave among all slots.
        gpu_share: Share of the GPU's multiprocessors that it may use.
        cuts_columns: Whether it may begin with some of B's columns: False if it makes something of
            B as it goes.
    """
    m, n, item_bytes = problem.m, problem.n, problem.item_bytes
    staged = problem.memory == "pageable"
    streams = streams_a(m, n, item_bytes, gpu_share, staged=staged)
    panel_rows, last_rows = _outline_panels(problem, grid, splits_tail, streams)
    if goes_deep(m, n, problem.k, item_bytes, grid.wave_rows):
        steps = _count_leading_steps(problem, problem.c_row_bytes + m * item_bytes)
        return Stream(m, steps, panel_rows, last_rows)
    if streams:
        return Stream(panel_rows, 1, panel_rows, last_rows)
    parts = count_leading_parts(n, problem.k, item_bytes, gpu_share)
    if cuts_columns and min(parts, grid.tiles_per_tile_row) > 1:
        return _lead_by_columns(problem, grid, parts, panel_rows, last_rows)
    stream = Stream(
        first_rows=max(_choose_first_rows(problem, grid, gpu_share), panel_rows),
        first_steps=_count_leading_steps(problem, problem.c_row_bytes),
        panel_rows=panel_rows,
        last_rows=last_rows,
    )
    if not cuts_columns or staged or item_bytes == 2:
        return stream
    return _lead_some_columns(problem, grid, gpu_share, stream)


def _outline_panels(
    problem: GemmProblem, grid: WaveGrid, splits_tail: bool, streams: bool
) -> tuple[int, int]:
    """Rows of an ordinary panel, and of the last one.

    Args:
        problem: The product.
        grid: The kernel's tiles and slots.
        splits_tail: Whether the kernel shares a partly filled wave among all slots.
        streams: Whether A is what comes in.
    """
    m, tile_m, wave_rows = problem.m, grid.tile_m, grid.wave_rows
    row_bytes = problem.a_row_bytes + problem.c_row_bytes
    shares = SPLIT_SHARE if splits_tail else 1
    staged = problem.memory == "pageable"
    wave_products = grid.slots * tile_m * grid.tile_n * problem.k
    least_bytes = count_least_bytes(wave_products, shares, staged=staged)
    wanted_bytes = min(max(m * row_bytes // PANELS, least_bytes), MAX_PANEL_BYTES)
    last_rows = least_rows = max(1, wave_rows // tile_m // shares) * tile_m
    drain_rows = max(1, MIN_DRAIN_BYTES // (row_bytes * tile_m)) * tile_m
    if min(problem.n, problem.k) < COMPUTE_BOUND_SIZE * problem.item_bytes:
        last_rows = min(drain_rows, max(1, drain_rows // last_rows) * last_rows)
    else:
        wanted_bytes = min(max(wanted_bytes, wave_rows * row_bytes), MAX_PANEL_BYTES)
        if splits_tail and streams:
            last_rows = min(last_rows, drain_rows)
    deep = goes_deep(m, problem.n, problem.k, problem.item_bytes, wave_rows)
    if splits_tail and streams and not staged and not deep:
        wanted_bytes = min(max(least_bytes, 2 * m * row_bytes // PANELS), MAX_PANEL_BYTES)
        parts = max(1, round(wanted_bytes / (least_rows * row_bytes)))
        if parts < SPLIT_SHARE:
            panel_rows = min(m, parts * least_rows)
            return panel_rows, min(last_rows, panel_rows)
    panel_rows = min(m, _round_rows(max(1, wanted_bytes // row_bytes), grid))
    return panel_rows, min(last_rows, panel_rows)


def _lead_by_columns(
    problem: GemmProblem, grid: WaveGrid, parts: int, panel_rows: int, last_rows: int
) -> Stream:
    """Where C takes longer to copy out than to compute."""
    m, n, k = problem.m, problem.n, problem.k
    tiles = grid.tiles_per_tile_row
    steps = divide_up(tiles, divide_up(tiles, parts))
    waits = comes_in_longer(m, n, k) and problem.memory != "pageable"
    most = m if waits else panel_rows
    first_rows = min(most, divide_up(k, grid.tile_m) * grid.tile_m)
    if first_rows == m > panel_rows:
        last_rows = max(last_rows, m // steps)
    return Stream(first_rows, steps, panel_rows, last_rows, by_columns=True)


def _lead_some_columns(
    problem: GemmProblem, grid: WaveGrid, gpu_share: float, stream: Stream
) -> Stream:
    """The same, but for the first panel, if that begins with some of B's columns."""
    m, n, k, item_bytes = problem.m, problem.n, problem.k, problem.item_bytes
    wanted = count_feeding_rows(n, k, item_bytes, gpu_share)
    if 2 * m <= wanted or not leads_columns(n, item_bytes, gpu_share):
        return stream
    square = choose_square(m, n, k, item_bytes, gpu_share, tile_n=grid.tile_n)
    columns = square.columns
    if columns == n:
        return stream
    rows = _round_close(square.rows, grid, divide_up(columns, grid.tile_n))
    width = find_rest_width(n, columns, item_bytes, tile_n=grid.tile_n)
    rest_steps = divide_up(n - columns, width)
    last_rows = stream.last_rows
    if rows >= m:
        last_rows = max(last_rows, (n - columns) * m // n // rest_steps)
    return replace(
        stream,
        first_rows=min(m, max(rows, stream.panel_rows)),
        first_steps=stream.first_steps + rest_steps,
        last_rows=last_rows,
        lead_share=columns / n,
        rest_steps=rest_steps,
    )


def _choose_first_rows(problem: GemmProblem, grid: WaveGrid, gpu_share: float) -> int:
    """Rows of the first panel, if it takes all of B's columns at a time."""
    m, n, k, item_bytes = problem.m, problem.n, problem.k, problem.item_bytes
    wanted = count_feeding_rows(n, k, item_bytes, gpu_share)
    if 2 * m <= wanted:
        return m
    wanted = min(wanted, count_most_leading(m, k, item_bytes, gpu_share))
    return min(m, _round_close(wanted, grid, grid.tiles_per_tile_row))


def _round_close(wanted: int, grid: WaveGrid, tiles: int) -> int:
    """Whole waves of so many tiles in a row of them near `wanted` rows."""
    waves = max(1, round(wanted / grid.tile_m * tiles / grid.slots))
    rows = waves * grid.slots // tiles * grid.tile_m
    least, most = CLOSE
    if not least * wanted <= rows <= most * wanted:
        rows = max(1, int(most * wanted / grid.tile_m)) * grid.tile_m
    return rows


def _count_leading_steps(problem: GemmProblem, depth_bytes: int) -> int:
    """Steps of the first panel, each element of K being so many bytes of what comes in."""
    if problem.item_bytes == 2:
        return 1
    return divide_up(problem.k, cut_depth(problem.k, depth_bytes))


def _round_rows(rows: int, grid: WaveGrid) -> int:
    """Whole waves near `rows`; where one covers more than twice that, as much of it as may be."""
    wave_rows = grid.wave_rows
    if wave_rows > 2 * rows:
        return max(1, 2 * rows // grid.tile_m) * grid.tile_m
    waves = max(1, round(rows / wave_rows))
    two_waves = 2 * grid.slots // grid.tiles_per_tile_row * grid.tile_m
    if waves == 1 and 2 * wave_rows < two_waves <= 2 * rows:  # these are fuller
        return two_waves
    return waves * wave_rows
