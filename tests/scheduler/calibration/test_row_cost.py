"""What a row costs the CPU is told from two K, and stays within bounds however noisy they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavetrim.scheduler.calibration.row_cost import fit_row_cost

SECONDS = st.floats(1e-9, 1.0)


@given(st.integers(1, 10_000), st.floats(1e-13, 1e-9), st.floats(1e-11, 1e-9))
def test_both_costs_are_found_again(n, flop_seconds, element_seconds):
    element_seconds = min(element_seconds, 256 * flop_seconds)  # or it would rule at both K
    deep, shallow = (
        (k, n * (2 * k * flop_seconds + max(element_seconds, 1e-12))) for k in (4096, 256)
    )
    cost = fit_row_cost(n, deep, shallow)
    assert cost.flop_seconds == pytest.approx(flop_seconds, rel=1e-6)
    assert cost.element_seconds == pytest.approx(max(element_seconds, 1e-12), rel=1e-3)


@given(st.integers(1, 10_000), SECONDS, SECONDS)
def test_noise_leaves_both_costs_within_bounds(n, deep_seconds, shallow_seconds):
    cost = fit_row_cost(n, (4096, deep_seconds), (256, shallow_seconds))
    most = deep_seconds / (2 * n * 4096)
    assert most / 2 <= cost.flop_seconds <= most
    assert cost.element_seconds > 0
