"""What all benchmarks share: turns, time, results files."""

import itertools
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.common.steps import share_seconds, share_time
from benchmarks.common.turns import take_turns


@given(st.integers(1, 6), st.integers(0, 20))
def test_all_have_each_round_and_begin_equally_often(sides: int, rounds: int) -> None:
    turns = list(take_turns(range(sides), rounds))
    assert [turn for turn, _ in turns] == [turn for turn in range(rounds) for _ in range(sides)]
    orders = [[side for _, side in of] for _, of in itertools.groupby(turns, lambda x: x[0])]
    assert all(sorted(order) == list(range(sides)) for order in orders)
    assert [order[0] for order in orders] == [turn % sides for turn in range(rounds)]


def test_each_round_has_another_order() -> None:
    sides = "".join(side for _, side in take_turns("abcdefgh", 9))
    assert len({sides[start : start + 8] for start in range(0, 72, 8)}) == 9


def test_without_time_the_least_rounds_take_place() -> None:
    past = time.perf_counter() - 1
    for limits, rounds in (
        ({"until": past, "least": 3}, 3),
        ({"until": past}, 0),
        ({"latest": past}, 1),
        ({"until": math.inf}, 9),
    ):
        assert len(list(take_turns("ab", 9, **limits))) == 2 * rounds
    assert list(take_turns("", 9)) == []


@given(st.floats(0, 300), st.lists(st.floats(0.1, 30), min_size=1, max_size=40))
def test_shares_of_the_time_left_leave_enough_for_the_rest(
    left: float, estimates: list[float]
) -> None:
    share = share_seconds(left, estimates)
    if share is None:
        assert left * estimates[0] / sum(estimates) <= estimates[0] / 4
    else:
        assert 0 < share <= left or math.isclose(share, left)
        rest = sum(estimates[1:])
        assert left - share >= min(0.85 * rest, left * rest / sum(estimates)) - 1e-9


def test_what_one_does_not_use_is_left_to_the_others() -> None:
    until = time.perf_counter() + 100
    ends = [end - time.perf_counter() for _, end in share_time("abc", (1, 3, 4), until)]
    assert ends == pytest.approx([12.5, 300 / 7, 100], abs=0.5)
