"""Both parts together take every row once, wherever they meet."""

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from scheduler.frontier import LEAST_ROWS, Frontier

ROWS = st.integers(1, 3000)


@given(rows=ROWS, data=st.data(), moves=st.booleans())
def test_every_row_is_taken_once(rows: int, data: st.DataObject, moves: bool) -> None:
    frontier = Frontier(rows, data.draw(st.integers(0, rows)), moves=moves)
    taken: list[int] = []
    left = {"top", "bottom"}
    while left:
        side = data.draw(st.sampled_from(sorted(left)))
        some = frontier.take_top(data.draw(st.integers(1, 700))) if side == "top" else None
        some = frontier.take_bottom() if some is None else some
        if not some:
            left.remove(side)
        taken += some
    assert sorted(taken) == list(range(rows))


@given(rows=ROWS, data=st.data(), most=st.integers(1, 500))
def test_a_fixed_boundary_stays_where_it_was_planned(
    rows: int, data: st.DataObject, most: int
) -> None:
    f = data.draw(st.integers(0, rows))
    frontier = Frontier(rows, f, moves=False)
    while frontier.take_top(most):
        pass
    assert frontier.take_bottom() == range(rows - f, rows)
    assert not frontier.take_bottom()
    assert frontier.f == f


def test_the_gpu_takes_over_what_a_slow_cpu_has_not_begun() -> None:
    frontier = Frontier(1000, 400, moves=True)
    assert frontier.take_bottom() == range(800, 1000)
    while frontier.take_top(128):
        pass
    assert frontier.f == 200
    assert not frontier.take_bottom()


def test_the_cpu_goes_on_with_few_rows_at_a_time_beyond_its_own() -> None:
    frontier = Frontier(1000, 100, moves=True)
    sizes = [len(frontier.take_bottom()) for _ in range(4)]
    assert sizes == [LEAST_ROWS, 100 - LEAST_ROWS, LEAST_ROWS, LEAST_ROWS]
    assert frontier.take_top(1000) == range(1000 - sum(sizes))


@given(rows=ROWS)
def test_a_single_device_takes_all_rows_at_once(rows: int) -> None:
    assert Frontier(rows, rows, moves=True).take_bottom() == range(rows)
    assert Frontier(rows, 0, moves=True).take_top(rows) == range(rows)


def test_two_threads_never_take_the_same_row() -> None:
    frontier = Frontier(100_000, 50_000, moves=True)

    def take_all(top: bool) -> list[range]:
        taken = []
        while some := frontier.take_top(7) if top else frontier.take_bottom():
            taken.append(some)
        return taken

    with ThreadPoolExecutor(2) as threads:
        parts = list(threads.map(take_all, (True, False)))
    rows = sorted(row for part in parts for some in part for row in some)
    assert rows == list(range(100_000))
