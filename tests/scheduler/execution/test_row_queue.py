"""Both parts together take every row once, wherever they meet."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from wavetrim.scheduler.execution.pieces import Pieces
from wavetrim.scheduler.execution.row_queue import RowQueue
from wavetrim.scheduler.model.cost import CpuCurve

ROWS = st.integers(1, 3000)


class Clock:
    """Time that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def make_queue(
    rows: int,
    f: int,
    gpu_row_seconds: float = 1e-4,
    clock: Callable[[], float] = time.perf_counter,
) -> RowQueue:
    """A queue that moves: a CPU with 0.1 ms a row, and no start worth speaking of."""
    gpu, cpu = CpuCurve(gpu_row_seconds), CpuCurve(1e-4)
    pieces = Pieces(gpu, cpu, rows, rows - f, total_seconds=f * 1e-4, round_rows=10)
    return RowQueue(rows, f, pieces, clock)


@given(rows=ROWS, data=st.data(), moves=st.booleans())
def test_every_row_is_taken_once(rows: int, data: st.DataObject, moves: bool) -> None:
    f = data.draw(st.integers(0, rows))
    clock = Clock()
    row_queue = make_queue(rows, f, clock=clock) if moves else RowQueue(rows, f, None)
    taken: list[int] = []
    left = {"top", "bottom"}
    while left:
        side = data.draw(st.sampled_from(sorted(left)))
        some = row_queue.take_top(data.draw(st.integers(1, 700))) if side == "top" else None
        if some is None:
            clock.now += data.draw(st.floats(0, 0.01))
            some = row_queue.take_bottom(data.draw(st.floats(0, row_queue.f)))
            # The CPU may leave rows to the GPU, which is not done then.
            assert some or "top" in left or not row_queue.take_top(1)
        if not some:
            left.remove(side)
        taken += some
    assert sorted(taken) == list(range(rows))


@given(rows=ROWS, data=st.data(), most=st.integers(1, 500))
def test_a_fixed_boundary_stays_where_it_was_planned(
    rows: int, data: st.DataObject, most: int
) -> None:
    f = data.draw(st.integers(0, rows))
    row_queue = RowQueue(rows, f, None)
    while row_queue.take_top(most):
        pass
    assert row_queue.take_bottom(0.0) == range(rows - f, rows)
    assert not row_queue.take_bottom(0.0)
    assert row_queue.f == f


def test_the_gpu_takes_over_what_a_slow_cpu_has_not_begun() -> None:
    clock = Clock()
    row_queue = make_queue(1000, 400, clock=clock)
    assert row_queue.take_bottom(0.0) == range(800, 1000)
    while row_queue.take_top(128):
        pass
    assert row_queue.f == 200
    clock.now = 0.1
    assert not row_queue.take_bottom(20.0)


def test_what_the_cpu_leaves_and_the_gpu_does_not_take_is_there_in_the_end() -> None:
    clock = Clock()
    row_queue = make_queue(1000, 400, gpu_row_seconds=1e-7, clock=clock)
    assert row_queue.take_top(600) == range(600)
    assert row_queue.take_bottom(0.0) == range(800, 1000)
    clock.now = 0.1
    assert not row_queue.take_bottom(10.0)
    assert row_queue.take_rest() == range(600, 800)
    assert row_queue.f == 400
    assert not row_queue.take_rest()


def test_a_cpu_that_is_early_goes_on_beyond_its_own_rows_in_ever_smaller_parts() -> None:
    clock = Clock()
    row_queue = make_queue(10_000, 1000, gpu_row_seconds=1e-4, clock=clock)
    sizes = []
    while rows := row_queue.take_bottom(0.0):
        sizes.append(len(rows))
        clock.now += len(rows) * 1e-5
        while row_queue.take_top(200).stop * 1e-4 < clock.now + 0.06:
            pass
    assert sizes[0] == 500
    assert sum(sizes) > 5000
    assert sizes[-1] < max(sizes)


def test_a_gpu_that_is_slow_leaves_more_rows_to_the_cpu() -> None:
    taken = []
    for slowness in (1, 3):
        clock = Clock()
        row_queue = make_queue(2000, 1000, clock=clock)
        for _ in range(3):
            row_queue.take_top(100)
        row_queue.take_bottom(0.0)
        for panel in range(1, 5):
            clock.now = panel * slowness * 0.01
            row_queue.take_top(100)
        clock.now = 0.05
        taken.append(len(row_queue.take_bottom(0.0)))
    assert taken[0] < taken[1]


@given(rows=ROWS)
def test_a_single_device_takes_all_rows_at_once(rows: int) -> None:
    assert make_queue(rows, rows).take_bottom(0.0) == range(rows)
    assert make_queue(rows, 0).take_top(rows) == range(rows)


def test_two_threads_never_take_the_same_row() -> None:
    row_queue = make_queue(100_000, 50_000)

    def take_all(top: bool) -> list[range]:
        taken = []
        while some := row_queue.take_top(7) if top else row_queue.take_bottom(0.0):
            taken.append(some)
        return taken

    with ThreadPoolExecutor(2) as threads:
        parts = list(threads.map(take_all, (True, False)))
    rows = sorted(row for part in parts for some in part for row in some)
    assert rows == list(range(100_000))
