"""Measurements are repeated until their time is over, and calibration ends in time."""

import time

import numpy as np

from tests.limit import allow
from wavetrim.scheduler.calibration.operands import OperandMemory
from wavetrim.scheduler.calibration.repetition import (
    BRIEF_SECONDS,
    LEAST_SAMPLES,
    repeat,
    repeat_in_pairs,
)


def test_the_median_of_what_fits_in_the_time_counts() -> None:
    seconds = iter([9.0, *(2.0, 1.0, 30.0) * 100_000])
    assert repeat(lambda: next(seconds), 0.01) == 2.0


def test_once_it_is_late_the_fewest_samples_are_enough() -> None:
    runs: list[float] = []

    def measure() -> float:
        runs.append(1.0)
        return 1.0

    began = time.perf_counter()
    repeat(measure, 60.0, until=began)
    assert len(runs) == 1 + LEAST_SAMPLES
    assert time.perf_counter() - began < allow(2)


def test_of_brief_products_the_second_one_counts() -> None:
    first, second = BRIEF_SECONDS / 2, BRIEF_SECONDS / 4
    seconds = iter((first, second) * 10_000)
    assert repeat_in_pairs(lambda: next(seconds), 0.01) == second
    assert repeat_in_pairs(lambda: 2 * BRIEF_SECONDS, 0.01) == 2 * BRIEF_SECONDS


def test_operands_lie_apart_in_memory_that_is_made_once() -> None:
    memory = OperandMemory()
    shapes = ((300, 70), (70, 11), (300, 11))
    first = memory.take("pageable", shapes, "float64")
    assert [one.shape for one in first] == list(shapes)
    assert all(
        (one == 0.5).all() and one.ctypes.data % 4096 == first[0].ctypes.data % 4096
        for one in first
    )
    assert not any(
        np.shares_memory(one, other) for one in first for other in first if one is not other
    )
    (again,) = memory.take("pageable", ((5, 5),), "float32")
    assert np.shares_memory(again, first[0])
