"""Presets: every promised GPU, with figures that agree with each other."""

import pytest

from wavetrim.scheduler.profile.presets import CUDA_NAMES, PRESETS, find_preset

LANES_AN_SM = {(7, 5): 64, (8, 0): 64}
FLOAT64_RATIO = {(7, 5): 32, (8, 0): 2, (9, 0): 2, (10, 0): 2}


@pytest.mark.parametrize("gpu", PRESETS, ids=lambda gpu: gpu.name)
def test_peaks_follow_from_multiprocessors_lanes_and_clock(gpu):
    lanes = LANES_AN_SM.get(gpu.compute_capability, 128)
    float32_gflops = gpu.sm_count * lanes * 2 * gpu.clock_mhz / 1e3
    assert gpu.float32_gflops == pytest.approx(float32_gflops, rel=0.01)
    ratio = FLOAT64_RATIO.get(gpu.compute_capability, 64)
    assert gpu.float64_gflops == pytest.approx(float32_gflops / ratio, rel=0.02)
    assert gpu.float64_tensor_gflops >= gpu.float64_gflops
    assert gpu.source


@pytest.mark.parametrize("gpu", PRESETS, ids=lambda gpu: gpu.name)
def test_a_preset_is_found_however_its_name_is_written(gpu):
    for name in (gpu.name, gpu.name.lower(), gpu.name.replace(" ", "-"), gpu.name.upper()):
        assert find_preset(name) is gpu


def test_a_preset_is_found_by_the_name_that_cuda_reports():
    for cuda_name, name in CUDA_NAMES.items():
        found = find_preset(cuda_name)
        assert found.name == name
