"""The fit finds the staircase that the measurements were made from."""

from hypothesis import given
from hypothesis import strategies as st

from wavetrim.lab.probes.staircase import fit_staircase


@given(blocks=st.integers(1, 12), launch=st.floats(0, 1e-4), wave=st.floats(1e-5, 1e-2))
def test_an_exact_staircase_is_found_again(blocks, launch, wave):
    seconds = [launch + -(-r // blocks) * wave for r in range(1, 33)]
    fit = fit_staircase(range(1, 33), seconds, most_blocks=16)
    assert fit.blocks == blocks
    assert abs(fit.wave_seconds - wave) <= 1e-6 * wave
    assert abs(fit.launch_seconds - launch) <= 1e-6 * (launch + wave)
