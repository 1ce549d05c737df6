"""Profiles: this machine's calibration first, then a preset, then an estimate."""

import json
from dataclasses import replace

import pytest

from wavetrim.kernels.catalog import list_kernels
from wavetrim.kernels.device import DeviceInfo
from wavetrim.scheduler.errors import PlanError, ProfileError
from wavetrim.scheduler.problem import ITEM_BYTES
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.store import find_profile, load_profile, read_key, store_profile

H200 = DeviceInfo(
    index=0,
    name="NVIDIA H200",
    uuid="GPU-3f2a",
    compute_capability=(9, 0),
    sm_count=132,
    memory_bytes=141 * 10**9,
    clock_mhz=1980,
    memory_clock_mhz=3201,
    driver_version=13000,
    runtime_version=13000,
)


def find(device=None, devices=(), directory=None):
    return find_profile(device, devices=devices, directory=directory, cpu_threads=8)


def test_a_machine_without_a_gpu_has_a_cpu_profile():
    profile = find()
    assert profile.device == "cpu"
    assert profile.gpu is None
    assert {rate.dtype for rate in profile.cpu.rates} == set(ITEM_BYTES)


@pytest.mark.parametrize("device", [None, "cuda:0", "GPU-3f2a", "nvidia h200"])
def test_a_local_gpu_is_found_by_index_uuid_or_name(device):
    profile = find(device, [H200])
    assert profile.device == "H200"
    assert "calibrate" in profile.source


def test_the_cpu_can_be_chosen_on_a_machine_with_a_gpu():
    assert find("cpu", [H200]).gpu is None


def test_a_preset_runs_every_kernel_its_architecture_allows():
    profile = find("T4")
    fitting = list_kernels(compute_capability=(7, 5))
    assert len(profile.kernels) == len(fitting)
    assert all(profile.find_kernel_model(spec) is not None for spec in fitting)


def test_a_gpu_without_a_preset_is_derived_from_its_properties():
    profile = find(None, [replace(H200, name="Experimental GPU")])
    assert profile.gpu is not None
    assert profile.gpu.float32_gflops == pytest.approx(66_908, rel=0.01)
    assert "derived" in profile.gpu.source


def test_a_gpu_that_does_not_tell_its_memory_clock_has_a_rate():
    profile = find(None, [replace(H200, name="Experimental GPU", memory_clock_mhz=0)])
    assert profile.gpu is not None
    assert profile.gpu.memory_gbytes_per_second > 0
    assert MachineProfile.from_dict(profile.as_dict()) == profile


def test_an_unknown_device_is_refused_with_the_known_ones():
    with pytest.raises(PlanError) as caught:
        find("Voodoo 2", [H200])
    assert caught.value.field == "device"
    assert "cuda:0" in str(caught.value)
    assert "RTX 4090" in str(caught.value)


def test_every_group_of_figures_names_its_source():
    profile = find("L4")
    groups = [profile, profile.gpu, *profile.links, *profile.kernels, *profile.cpu.rates]
    assert all(group.source for group in groups)


def test_a_calibration_is_used_until_driver_or_threads_change(tmp_path):
    measured = replace(find(None, [H200]), source="measured", key=read_key(H200, 8))
    store_profile(measured, tmp_path)
    assert find(None, [H200], tmp_path) == measured
    newer = replace(H200, driver_version=13010)
    assert find(None, [newer], tmp_path).source != "measured"
    other = find_profile(None, devices=[H200], directory=tmp_path, cpu_threads=4)
    assert other.source != "measured"


def test_what_a_calibration_lacks_is_assumed(tmp_path):
    whole = replace(find(None, [H200]), measured_at="2026-01-01", key=read_key(H200, 8))
    measured = tuple(
        replace(model, assumed=False) for model in whole.kernels if model.kernel == "cublas"
    )
    rates = tuple(
        replace(rate, gflops=2 * rate.gflops, source="measured")
        for rate in whole.cpu.rates
        if rate.dtype in ("float32", "float64")
    )
    store_profile(replace(whole, kernels=measured, cpu=replace(whole.cpu, rates=rates)), tmp_path)
    found = find(None, [H200], tmp_path)
    for rate in whole.cpu.rates:
        assert found.find_cpu_rate(rate.dtype).gflops == pytest.approx(2 * rate.gflops)
    assert found.find_cpu_rate("bfloat16").source != "measured"
    assert found.index_kernels().keys() == whole.index_kernels().keys()
    assert {model.kernel for model in found.kernels if not model.assumed} == {"cublas"}


@pytest.mark.parametrize("device", ["T4", "H200"])
def test_a_preset_has_the_types_that_the_measured_cpu_lacks(tmp_path, device):
    whole = find()
    rates = tuple(
        replace(rate, gflops=3 * rate.gflops, source="measured")
        for rate in whole.cpu.rates
        if rate.dtype == "float32"
    )
    cpu = replace(whole.cpu, rates=rates)
    store_profile(
        replace(whole, cpu=cpu, measured_at="2026-01-01", key=read_key(None, 8)), tmp_path
    )
    found = find(device, directory=tmp_path)
    assert found.find_cpu_rate("float32").source == "measured"
    for rate in whole.cpu.rates:
        assert found.find_cpu_rate(rate.dtype).gflops == pytest.approx(3 * rate.gflops)


def test_an_unreadable_calibration_is_ignored(tmp_path):
    """Format 1 had one link, and one number of CPU threads in a split."""
    profile = replace(find(None, [H200]), measured_at="2026-01-01", key=read_key(H200, 8))
    path = store_profile(profile, tmp_path)
    document = json.loads(path.read_text())
    for text in (json.dumps({**document, "format": 1}), "{", ""):
        path.write_text(text)
        found = find(None, [H200], tmp_path)
        assert found.measured_at is None
        assert "calibrate` again" in found.source


def test_a_profile_survives_its_json():
    profile = find("B200")
    assert MachineProfile.from_dict(json.loads(json.dumps(profile.as_dict()))) == profile


@pytest.mark.parametrize("text", ["", "{}", '{"format": 99}', "[1]", '{"format": 2}'])
def test_a_damaged_profile_is_refused(tmp_path, text):
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(ProfileError):
        load_profile(path)
