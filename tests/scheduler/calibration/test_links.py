"""A link's rate from the difference of two times, which a pause of the machine may spoil."""

import pytest

from wavetrim.scheduler.calibration.links import find_rate


@pytest.mark.parametrize("pause", [-0.5, 0.0, 1e-9])
def test_a_rate_that_no_link_has_is_measured_again(pause):
    times = iter([pause, 0.25])
    assert find_rate(lambda: next(times), moved_bytes=10, most=50.0) == 40.0


def test_a_rate_about_as_high_as_the_link_s_is_taken():
    assert find_rate(lambda: 0.19, moved_bytes=10, most=50.0) == 10 / 0.19


def test_after_some_tries_the_link_s_rate_is_taken():
    times = iter([-1.0, -2.0, 0.0])
    assert find_rate(lambda: next(times), moved_bytes=10, most=50.0) == 50.0
    assert next(times, None) is None
