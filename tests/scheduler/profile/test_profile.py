"""Profiles: this machine's calibration first, unless it is damaged, then a preset, an estimate."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from tests.host_gpus import INFO
from wavetrim.cpu.gemm import CpuPool
from wavetrim.kernels.catalog import list_kernels
from wavetrim.scheduler.calibration.cpu import measure_cpu_quickly
from wavetrim.scheduler.errors import ProfileError
from wavetrim.scheduler.planning.gpu_rows import find_rate
from wavetrim.scheduler.problem import MEMORIES
from wavetrim.scheduler.profile.corrections import NO_CORRECTIONS, Factor
from wavetrim.scheduler.profile.presets import CUDA_NAMES, PRESETS, find_preset
from wavetrim.scheduler.profile.provider import ProfileProvider
from wavetrim.scheduler.profile.store import (
    FORMAT_VERSION,
    dump_profile,
    find_calibration,
    find_profile,
    load_profile,
    read_key,
    read_profile,
    store_profile,
)
from wavetrim.scheduler.profile.what_if import derive_sheet

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


def test_a_profile_is_read_again_when_a_calibration_is_stored(tmp_path):
    with CpuPool(1) as pool:
        provider = ProfileProvider(
            devices=(),
            directory=tmp_path,
            cpu_threads=1,
            measure_cpu=lambda: measure_cpu_quickly(pool),
        )
        brief = provider.find()
        assert brief.measured_at is None
        assert "brief measurement" in brief.cpu.source
        assert provider.find() is brief
        key = {"gpu_uuid": "none"}
        for moment in ("2026-01-01T00:00:00", "2026-01-02T00:00:00"):
            stored = store_profile(replace(brief, key=key, measured_at=moment), tmp_path)
            stored.replace(find_calibration(None, tmp_path, 1))
            read = provider.find()
            assert read.measured_at == moment
            assert provider.find() is read
        find_calibration(None, tmp_path, 1).unlink()
        assert provider.find().measured_at is None


def test_runs_correct_the_profiles_of_this_machine_only(tmp_path):
    store_profile(measure(), tmp_path)
    provider = ProfileProvider(devices=(H200, H200), directory=tmp_path, cpu_threads=8)
    here = provider.find()
    for _ in range(5):
        here.corrections.note("GPU", 1.0, 1.5)
    assert here.corrections.list_all() == {"GPU": Factor(reported=1.5, deciding=1.5, runs=5)}
    assert all(gpu.corrections is here.corrections for gpu in here.gpus)
    described = derive_sheet(sm_count=8, clock_mhz=1000, compute_capability=(8, 0), memory_gib=8)
    for elsewhere in (provider.find("T4"), provider.describe(described, 2)):
        assert elsewhere.corrections is NO_CORRECTIONS
    assert len(provider.describe(described, 2).gpus) == 2


RATE = ("cpu", "float32_gflops")


def write_calibration(folder, place, value):
    """A stored calibration of an H200 with another value in one place."""
    path = store_profile(measure(), folder)
    document = inner = json.loads(path.read_text())
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    path.write_text(json.dumps(document))
    return path


def check_passed_over(folder):
    """This machine and a preset beside its CPU are planned without the calibration."""
    found = find(None, (H200,), folder)
    assert found.measured_at is None
    assert "calibrate` again" in found.source
    assert "measured" not in find("T4", (H200,), folder).cpu.source


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("format",), 4, f"format is 4; it must be {FORMAT_VERSION}"),
        (("cpu",), "text", "cpu is 'text'; it must be an object"),
        (("cpu", "threads"), 0, "cpu.threads is 0; it must be greater than or equal to 1"),
        (("cpu", "threads"), True, "cpu.threads is True; it must be a valid integer"),
        (("links",), [], "links is (); it must be for ('pageable', 'pinned')"),
        (("links", 1, "memory"), "disk", "links.1.memory is 'disk'; it must be 'pageable' or"),
        (("links", 0, "duplex"), 0.5, "links.0.duplex is 0.5; it must be greater than or equal"),
        (("gpu",), None, "links is ('pageable', 'pinned'); it must be for ()"),
        (("gpu", "compute_capability"), [9], "gpu.compute_capability.1 is missing"),
        (("measured_at",), 2026, "measured_at is 2026; it must be a valid string"),
        (RATE, 0, "cpu.float32_gflops is 0; it must be greater than or equal to 0.000001"),
        (RATE, 1e13, "it must be less than or equal to 1000000000000"),
        (RATE, None, "cpu.float32_gflops is None; it must be a valid number"),
        (RATE, math.inf, "cpu.float32_gflops is inf; it must be a finite number"),
        (RATE, 10**400, "cpu.float32_gflops is "),
    ],
)
def test_a_damaged_value_is_named_with_its_file_and_limit(tmp_path, place, value, message):
    path = write_calibration(tmp_path, place, value)
    with pytest.raises(ProfileError) as caught:
        load_profile(path)
    assert str(caught.value).startswith(f"{path} cannot be read: ")
    assert message in str(caught.value)
    check_passed_over(tmp_path)


NO_PROFILES = ("", "{}", "[1]", "{", 100_000 * "[", 100_000 * '{"beside":')
PUT = {
    "a folder": lambda path: path.mkdir(parents=True),
    "in a file": lambda path: path.parent.write_text("a file, no folder"),
    "a loop": lambda path: (path.parent.mkdir(), path.symlink_to(path)),
    **{
        text[:20]: lambda path, text=text: (path.parent.mkdir(), path.write_text(text))
        for text in NO_PROFILES
    },
}


@pytest.mark.parametrize("put", PUT)
def test_what_is_no_profile_or_cannot_be_opened_is_passed_over(tmp_path, put):
    folder = tmp_path / "profiles"
    path = find_calibration(H200, folder, 8)
    PUT[put](path)
    with pytest.raises(ProfileError, match=str(path)):
        load_profile(path)
    check_passed_over(folder)


def test_a_folder_that_cannot_be_looked_into_has_no_calibrations():
    """Too long a name fails for root, too, unlike a forbidden one."""
    check_passed_over(Path("/tmp") / ("x" * 300))
