"""Probes of global memory on a GPU: every byte is right, and rates are plausible."""

import pytest

from wavetrim.kernels.errors import DeviceFailure
from wavetrim.kernels.timing.readings import MemoryReading
from wavetrim.lab.gpu.memory import (
    LOAD_WAYS,
    measure_loads,
    measure_offset_copies,
    measure_pitched_copies,
    measure_strided_copies,
    measure_transposes,
    measure_vector_copies,
)
from wavetrim.lab.gpu.stopwatch import Stopwatch

pytestmark = pytest.mark.gpu

MANY = 1 << 24
"""Enough elements to keep a GPU busy."""


def check(readings: tuple[MemoryReading, ...]) -> None:
    for one in readings:
        assert one.right, one
        assert one.seconds > 0
        assert one.gbytes_per_second > 0


@pytest.mark.parametrize("elements", [1, 255, 257, 100_003])
def test_strided_and_offset_copies_move_every_element(watch: Stopwatch, elements: int) -> None:
    check(measure_strided_copies(watch, elements, (1, 2, 3, 8, 33), 2))
    check(measure_offset_copies(watch, elements, (0, 1, 7, 32), 2))


def test_strided_copies_are_slower_than_contiguous_ones(watch: Stopwatch) -> None:
    readings = measure_strided_copies(watch, MANY, (1, 8), 5)
    check(readings)
    assert readings[1].gbytes_per_second < 0.6 * readings[0].gbytes_per_second


@pytest.mark.parametrize("elements", [4, 1020, 1028, 100_004])
def test_vectors_of_every_width_are_copied_whole(watch: Stopwatch, elements: int) -> None:
    readings = measure_vector_copies(watch, elements, 2)
    check(readings)
    assert [(one.way, one.step) for one in readings] == [
        (way, width) for way in ("1 load", "4 loads") for width in (4, 8, 16)
    ]


def test_wider_and_more_loads_are_no_slower(watch: Stopwatch) -> None:
    first, *_, last = measure_vector_copies(watch, MANY, 5)
    assert last.gbytes_per_second > 0.9 * first.gbytes_per_second


@pytest.mark.parametrize("width", [1, 31, 256, 257, 1000])
def test_pitched_copies_move_every_row(watch: Stopwatch, width: int) -> None:
    readings = measure_pitched_copies(watch, 100_003, (width,), 2)
    check(readings)
    assert [one.way for one in readings] == ["tight", "pitched"]
    assert readings[0].moved_bytes == 8 * (100_003 // width) * width


def test_more_rows_than_a_grid_has_are_copied_too(watch: Stopwatch) -> None:
    check(measure_pitched_copies(watch, 200_000, (2,), 2))


def test_every_way_to_load_brings_the_same_elements(watch: Stopwatch) -> None:
    cases = [(1, 0, 1), (3, 5, 2), (8, 31, 7)]
    found = measure_loads(watch, 10_007, cases, 2)
    for case in found:
        check(case)
        assert tuple(one.way for one in case) == LOAD_WAYS


def test_shared_taps_are_faster_through_the_cache(watch: Stopwatch) -> None:
    ((cached, uncached, *_),) = measure_loads(watch, MANY, [(1, 0, 16)], 5)
    assert cached.gbytes_per_second > uncached.gbytes_per_second


@pytest.mark.parametrize("shape", [(1, 1), (31, 33), (64, 32), (1000, 517)])
def test_transposes_of_any_shape_are_right(watch: Stopwatch, shape: tuple[int, int]) -> None:
    readings = measure_transposes(watch, *shape, 2)
    check(readings)
    assert [one.way for one in readings] == ["copy", "naive", "shared", "padded"]


def test_a_padded_tile_is_faster_than_no_tile(watch: Stopwatch) -> None:
    rates = {one.way: one.gbytes_per_second for one in measure_transposes(watch, 4096, 4096, 5)}
    assert rates["naive"] < rates["padded"]


def test_arrays_that_do_not_fit_the_gpu_do_not_poison_its_context(watch: Stopwatch) -> None:
    with pytest.raises(DeviceFailure) as failure:
        measure_strided_copies(watch, 1 << 40, (1,), 1)
    assert not failure.value.poisoned
