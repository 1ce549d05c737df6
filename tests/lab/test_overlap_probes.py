"""Probes of what runs at the same time on a GPU."""

import pytest

from wavetrim.lab.gpu.overlap import measure_kernels_at_once, measure_overlap
from wavetrim.lab.gpu.row_copies import GAPS, measure_row_copies
from wavetrim.lab.gpu.stopwatch import Stopwatch

pytestmark = pytest.mark.gpu


def test_several_streams_are_faster_than_one_and_copy_every_byte(watch: Stopwatch) -> None:
    found = measure_overlap(watch, 64 << 20, 8, (1, 3), 3)
    assert all(one.right for one in found.readings)
    one, several = found.readings
    assert min(found.in_seconds, found.kernel_seconds, found.out_seconds) > 0
    assert several.seconds < 0.9 * one.seconds


def test_kernels_in_different_streams_run_at_once(watch: Stopwatch) -> None:
    (found,) = measure_kernels_at_once(watch, (4,), 3)
    assert found.many_streams_seconds < 0.5 * found.one_stream_seconds
    assert 0 < found.enqueue_seconds < found.one_stream_seconds


def test_a_copy_without_gaps_does_not_wait_for_a_kernel(watch: Stopwatch) -> None:
    readings = measure_row_copies(watch, 8 << 20, (1 << 10, 8 << 10), 3)
    kinds = [(0, "none"), *((length, gaps) for length in (1 << 10, 8 << 10) for gaps in GAPS[1:])]
    assert [(one.row_bytes, one.gaps, one.direction) for one in readings] == [
        (*kind, direction) for kind in kinds for direction in ("in", "out")
    ]
    for one in readings:
        assert one.right, one
        assert one.alone_seconds > 0
        assert one.beside_seconds > 0
        if one.row_bytes == 0:
            assert not one.waited, one


def test_spin_occupies_the_gpu_for_the_wanted_time(watch: Stopwatch) -> None:
    cycles = int(2e-3 * watch.find_clock_hertz())
    with watch.use_device():
        seconds = watch.time_launches(lambda: watch.spin(cycles), 3)
    for one in seconds:  # the clock may be slower than its highest
        assert 1.9e-3 < one < 20e-3
