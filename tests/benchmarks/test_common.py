"""What all benchmarks share: turns, time, operands and their check."""

import itertools
import math
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.common.freivalds import FreivaldsCheck
from benchmarks.common.operands import Matrix, cut_rows, draw_operands
from benchmarks.common.results import Record
from benchmarks.common.shapes import DTYPES, Shape
from benchmarks.common.steps import Step, share_time, take_steps
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
        ({"until": math.inf}, 9),
    ):
        assert len(list(take_turns("ab", 9, **limits))) == 2 * rounds
    assert list(take_turns("", 9)) == []


def test_steps_are_taken_in_order_until_no_time_is_left(tmp_path: Path) -> None:
    taken: list[str] = []

    def make_step(name: str, seconds: float) -> Step:
        def act(share_seconds: float) -> None:
            assert share_seconds > 0
            taken.append(name)
            time.sleep(seconds)

        return Step(name, 1.0, act)

    record = Record(tmp_path / "results.json", {})
    steps = [make_step("a", 0.0), make_step("b", 0.5), make_step("c", 0.0)]
    take_steps(steps, time.perf_counter() + 0.4, record)
    assert taken == ["a", "b"]
    assert record.left_out == ["c: no time is left"]


def test_what_one_does_not_use_is_left_to_the_others() -> None:
    until = time.perf_counter() + 100
    ends = [end - time.perf_counter() for _, end in share_time("abc", (1, 3, 4), until)]
    assert ends == pytest.approx([12.5, 300 / 7, 100], abs=0.5)


@given(st.integers(1, 10**6), st.integers(0, 2**34), st.integers(1, 64))
def test_ranges_cover_all_rows_once(rows: int, size_bytes: int, threads: int) -> None:
    ranges = cut_rows(rows, size_bytes, threads)
    assert len(ranges) <= threads
    assert [edge.start for edge in ranges] == [0, *(edge.stop for edge in ranges[:-1])]
    assert ranges[-1].stop == rows
    assert all(edge.start < edge.stop for edge in ranges)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1500, 700, 900), (1, 3000, 3000), (3000, 3000, 1)])
def test_right_products_pass_and_others_do_not(shape: Shape, dtype: str) -> None:
    operands = draw_operands(shape, dtype)
    assert operands.shape == shape
    assert operands.dtype == dtype
    assert np.isnan(operands.c).all()
    assert -1 <= operands.a.min() <= operands.a.max() <= 1
    check = FreivaldsCheck(operands)
    assert not check.find_error(operands.c) <= 1.0
    product = operands.a @ operands.b
    assert check.find_error(product) <= 0.5
    assert check.find_error(product[:, :-1]) == math.inf
    product[-1, -1] += 1.0
    assert check.find_error(product) > 1.0


def test_products_in_tf32_do_not_pass() -> None:
    operands = draw_operands((512, 2048, 2048), "float32")

    def cut(matrix: Matrix) -> Matrix:
        return (matrix.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)

    assert FreivaldsCheck(operands).find_error(cut(operands.a) @ cut(operands.b)) > 1.0
