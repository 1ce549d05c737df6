"""The fit finds the staircase that the measurements were made from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.device import list_devices
from wavetrim.lab.probes import waves
from wavetrim.lab.probes.staircase import fit_staircase
from wavetrim.lab.reports.bench import Bench


@given(blocks=st.integers(1, 12), launch=st.floats(0, 1e-4), wave=st.floats(1e-5, 1e-2))
def test_an_exact_staircase_is_found_again(blocks, launch, wave):
    seconds = [launch + -(-r // blocks) * wave for r in range(1, 33)]
    fit = fit_staircase(range(1, 33), seconds, most_blocks=16)
    assert fit.blocks == blocks
    assert abs(fit.wave_seconds - wave) <= 1e-6 * wave
    assert abs(fit.launch_seconds - launch) <= 1e-6 * (launch + wave)


@pytest.mark.gpu
def test_a_staircase_is_measured_and_fitted(kernel_cache):
    bench = Bench(device=list_devices()[0], cache_dir=kernel_cache, cpu_threads=1)
    report = waves.run_probe(bench, [find_kernel("shared", "float32")])
    assert len(report.plots) == 1
    times = [row["seconds"] for row in report.rows]
    assert len(times) > 8
    assert 0 < times[0] < times[-1]
    assert all(row["slots"] % bench.device.sm_count == 0 for row in report.rows)
    last = report.rows[-1]
    assert last["model_seconds"] == pytest.approx(last["seconds"], rel=0.5)
