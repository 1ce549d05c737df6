"""Profiles: this machine's calibration first, then a preset, then an estimate."""

from dataclasses import replace

import pytest

from tests.host_gpus import INFO
from wavetrim.kernels.catalog import list_kernels
from wavetrim.scheduler.planning.gpu_rows import find_rate
from wavetrim.scheduler.problem import MEMORIES
from wavetrim.scheduler.profile.presets import CUDA_NAMES, PRESETS, find_preset
from wavetrim.scheduler.profile.store import (
    dump_profile,
    find_profile,
    read_key,
    read_profile,
    store_profile,
)

H200 = replace(INFO, uuid="GPU-3f2a")
LANES_AN_SM = {(7, 5): 64, (8, 0): 64}
FLOAT64_RATIO = {(7, 5): 32, (8, 0): 2, (9, 0): 2, (10, 0): 2}


def find(device=None, devices=(), directory=None, cpu_threads=8):
    return find_profile(device, devices=devices, directory=directory, cpu_threads=cpu_threads)


def measure(info=H200, joint=None):
    found = find(None, (info,) if info else ())
    key = read_key(info, 8)
    return replace(found, source="measured", measured_at="2026-01-01", key=key, joint=joint)


@pytest.mark.parametrize("device", [None, "cuda:0", "GPU-3f2a", "nvidia h200"])
def test_a_local_gpu_is_found_by_index_uuid_or_name(device):
    profile = find(device, (H200,))
    assert profile.device == "H200"
    assert "calibrate" in profile.source


def test_a_gpu_without_a_preset_is_derived_from_its_properties():
    gpu = find(None, (replace(H200, name="Experimental GPU", memory_clock_mhz=0),)).gpu
    assert gpu.float32_gflops == pytest.approx(66_908, rel=0.01)
    assert gpu.memory_gbytes_per_second > 0
    assert "derived" in gpu.source


@pytest.mark.parametrize("gpu", PRESETS, ids=lambda gpu: gpu.name)
def test_every_kernel_of_a_preset_has_an_estimated_rate_and_each_number_a_source(gpu):
    profile = find(gpu.name)
    for spec in list_kernels(compute_capability=gpu.compute_capability):
        rate = find_rate(profile, spec)
        assert 0 < rate.gflops < 2 * gpu.float16_tensor_gflops
        assert "assumed" in rate.source
        assert profile.find_measured(spec) is None
    assert tuple(link.memory for link in profile.links) == MEMORIES
    assert all(group.source for group in (profile, profile.cpu, gpu, *profile.links))


def test_a_name_of_several_presets_takes_the_common_one_and_says_so():
    for name, taken in (("H100", "H100 SXM"), ("a100 x2", "A100 SXM 80")):
        profile = find(name)
        assert profile.gpu == find(taken).gpu
        assert f"preset {taken} (taken for {name.removesuffix(' x2')})" in profile.source
    assert "taken for" not in find("H100 SXM").source + find("L4").source


def test_a_calibration_is_used_until_driver_or_threads_change(tmp_path):
    store_profile(measure(), tmp_path)
    assert find(None, (H200,), tmp_path) == measure()
    assert find(None, (replace(H200, driver_version="13010"),), tmp_path).source != "measured"
    assert find(None, (H200,), tmp_path, cpu_threads=4).source != "measured"


@pytest.mark.parametrize("device", ["B200", "H200 x3", "cpu"])
def test_a_profile_survives_its_document(device):
    assert read_profile(dump_profile(find(device))) == find(device)


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
