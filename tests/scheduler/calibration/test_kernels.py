"""The rate of a kernel, while other work disturbs its measurement."""

import pytest

from wavetrim.scheduler.calibration.kernels import find_wave

WAVE_K_SECONDS = 1e-8
LAUNCH_SECONDS = 1e-5


def take(k: int) -> float:
    """Seconds of a wave."""
    return LAUNCH_SECONDS + k * WAVE_K_SECONDS


@pytest.mark.parametrize("disturbed", [0, 1, 2])
def test_a_kernel_that_seems_faster_than_it_can_be_is_measured_again(disturbed: int) -> None:
    """The first launches at the shorter K take longer than those at the longer one."""
    seen: list[int] = []

    def measure(k: int) -> float:
        seen.append(k)
        return take(k) * (10 if len(seen) in range(1, 2 * disturbed, 2) else 1)

    short, wave_k_seconds = find_wave(measure, least_seconds=WAVE_K_SECONDS / 2)
    assert len(seen) == 2 * (disturbed + 1)
    assert short == take(min(seen))
    assert wave_k_seconds == pytest.approx(WAVE_K_SECONDS)


def test_after_some_tries_the_highest_possible_rate_is_taken() -> None:
    _, wave_k_seconds = find_wave(lambda k: 1.0 / k, least_seconds=WAVE_K_SECONDS / 2)
    assert wave_k_seconds == WAVE_K_SECONDS / 2
