"""Both parts together take every row once, wherever the boundary is."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.clock import Clock
from wavetrim.scheduler.execution.row_queue import RowQueue
from wavetrim.scheduler.execution.self_scheduling import SelfSchedule

ROWS = st.integers(1, 3000)


def make_queue(rows: int, f: int, clock: Callable[[], float] = time.perf_counter) -> RowQueue:
    """A queue with a moving boundary: both parts are planned to take 0.1 ms a CPU row."""
    schedule = SelfSchedule(rows, rows - f, f * 1e-4, round_rows=10, tile_rows=1) if f else None
    return RowQueue(rows, f, schedule, clock)


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
    clock.now = 0.035  # the CPU should have computed 350 rows by then, and has none
    while row_queue.take_top(128):
        pass
    assert row_queue.f < 300


def test_parts_that_are_as_fast_as_planned_meet_where_it_was_planned() -> None:
    clock = Clock()
    row_queue = make_queue(1000, 400, clock=clock)
    row_queue.take_bottom(0.0)
    ends = []
    for panel in range(8):
        clock.now = 0.04 / 6 * max(0, panel - 2)  # three panels are taken ahead
        row_queue.note_cpu_rows(400 / 6 if panel > 2 else 0)
        if panel == 5:
            row_queue.take_bottom(0.0)
        ends.append(row_queue.take_top(100).stop)
    assert ends[-2:] == [600, 600]
    assert row_queue.f == 400


def test_rows_that_neither_part_took_are_taken_at_the_end() -> None:
    clock = Clock()
    row_queue = make_queue(1000, 400, clock=clock)
    assert row_queue.take_top(590) == range(590)
    assert row_queue.take_bottom(0.0) == range(800, 1000)
    clock.now = 10.0  # the CPU took for ever, and the GPU as long as planned
    assert not row_queue.take_bottom(200.0)
    assert row_queue.take_rest() == range(590, 800)
    assert row_queue.f == 410
    assert not row_queue.take_rest()


def test_a_cpu_that_is_early_takes_more_than_its_planned_rows() -> None:
    clock = Clock()
    row_queue = make_queue(10_000, 1000, clock=clock)
    sizes = []
    while rows := row_queue.take_bottom(0.0):
        sizes.append(len(rows))
        clock.now += len(rows) * 1e-5
        row_queue.note_cpu_rows(len(rows))
        while row_queue.take_top(200).stop * 1e-4 < clock.now + 0.06:
            pass
    assert sizes[0] == 500
    assert sum(sizes) > 5000


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
