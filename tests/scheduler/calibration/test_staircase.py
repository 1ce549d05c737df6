"""The fit finds the staircase that the measurements were made from."""

from hypothesis import given
from hypothesis import strategies as st

from wavetrim.scheduler.calibration.staircase import Step, fit_staircase
from wavetrim.scheduler.model.waves import divide_up


@given(blocks=st.integers(1, 12), launch=st.floats(0, 1e-4), wave=st.floats(1e-5, 1e-2))
def test_an_exact_staircase_is_found_again(blocks, launch, wave):
    steps = [Step(r, launch + divide_up(r, blocks) * wave) for r in range(1, 33)]
    fit = fit_staircase(steps, most_blocks=16)
    assert fit.blocks == blocks
    assert abs(fit.wave_seconds - wave) <= 1e-6 * wave
    assert abs(fit.launch_seconds - launch) <= 1e-6 * (launch + wave)


@given(st.floats(0.98, 1.02), st.integers(1, 6))
def test_a_little_noise_does_not_change_the_quantum(noise, blocks):
    steps = [Step(r, divide_up(r, blocks) * 1e-3 * (noise if r % 2 else 1.0)) for r in range(1, 17)]
    assert fit_staircase(steps, most_blocks=8).blocks == blocks


def test_a_launch_cost_is_never_negative():
    steps = [Step(r, 1e-3 * r - 5e-4) for r in range(1, 9)]
    assert fit_staircase(steps, most_blocks=1).launch_seconds == 0.0
