"""Calibration: a profile of this very machine, stored, found again, and planned with."""

import time

import pytest

from wavetrim.cpu.gemm import CpuPool
from wavetrim.kernels.catalog import list_kernels
from wavetrim.kernels.device import list_devices
from wavetrim.scheduler.calibrate import calibrate
from wavetrim.scheduler.cpu_survey import measure_cpu_briefly
from wavetrim.scheduler.execute import Executor
from wavetrim.scheduler.plan import choose_plan
from wavetrim.scheduler.problem import ITEM_BYTES, MEMORIES, GemmProblem
from wavetrim.scheduler.profile import find_profile


def test_a_calibrated_cpu_is_found_again_and_planned_with(tmp_path):
    told = []
    with Executor(cache_dir=tmp_path, cpu_threads=2) as executor:
        profile = calibrate(
            executor,
            cache_dir=tmp_path,
            directory=tmp_path / "profiles",
            report=lambda what, share: told.append(share),
        )
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert {rate.dtype for rate in profile.cpu.rates} == set(ITEM_BYTES)
    assert all(rate.gflops > 0 and rate.source.startswith("measured") for rate in profile.cpu.rates)
    found = find_profile(None, devices=(), directory=tmp_path / "profiles", cpu_threads=2)
    assert found == profile
    assert choose_plan(GemmProblem(500, 600, 700), found).profile.measured_at is not None


def test_a_brief_measurement_takes_a_moment_and_covers_every_element_type():
    with CpuPool(2) as pool:
        start = time.perf_counter()
        cpu = measure_cpu_briefly(pool)
        assert time.perf_counter() - start < 2.0
    assert cpu.threads == 2
    assert {rate.dtype for rate in cpu.rates} == set(ITEM_BYTES)
    assert all(rate.gflops > 0 for rate in cpu.rates)


@pytest.mark.gpu
def test_a_gpu_is_calibrated_within_a_minute(tmp_path, kernel_cache):
    devices = list_devices()
    with Executor(cache_dir=kernel_cache, devices=devices) as executor:
        start = time.perf_counter()
        profile = calibrate(executor, cache_dir=kernel_cache, directory=tmp_path)
        assert time.perf_counter() - start < 60
    assert profile.device == devices[0].name
    assert [link.memory for link in profile.links] == list(MEMORIES)
    for link in profile.links:
        assert link.in_gbytes_per_second > 1
        assert link.out_gbytes_per_second > 1
        assert 0 <= link.step_seconds < 1e-3
        assert 0 <= link.fill_seconds < 5e-3
        shares = profile.cpu.list_shares(link.memory)
        assert shares
        for share in shares:
            assert 1 <= share.link_stretch < 30
            assert 1 <= share.shallow_link_stretch < 30
            assert 0.5 <= share.stretch < 10
    for model in profile.kernels:
        assert model.slots % devices[0].sm_count == 0
        assert model.wave_k_seconds > 0, model
    measured = {model.kernel for model in profile.kernels if not model.assumed}
    here = {spec.name for spec in list_kernels(compute_capability=devices[0].compute_capability)}
    assert measured >= here & {"register", "bulk", "tensor", "cublas"}
