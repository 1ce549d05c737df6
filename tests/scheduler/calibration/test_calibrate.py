"""Calibration of GPUs, in its time; that of the CPU and the command are in service/cli."""

import time
from dataclasses import asdict

import pytest

from tests.limit import allow
from wavetrim.kernels.compile import compile_kernels
from wavetrim.kernels.device import list_devices, select_devices
from wavetrim.scheduler.calibration.calibrate import CALIBRATION_SECONDS, calibrate, calibrate_gpus
from wavetrim.scheduler.calibration.gpu import list_measured
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.problem import MEMORIES
from wavetrim.scheduler.profile.presets import PRESETS, describe_gpu
from wavetrim.scheduler.profile.store import dump_profile, read_profile


def check_cpu(cpu):
    numbers = asdict(cpu)
    assert numbers.pop("source")
    assert numbers.pop("start_seconds") >= 0
    assert all(number > 0 for number in numbers.values())


@pytest.mark.parametrize("gpu", PRESETS, ids=lambda gpu: gpu.name)
def test_what_is_measured_of_a_gpu_are_the_kernels_that_plans_choose(gpu):
    specs = list_measured(gpu)
    assert 3 <= len(specs) <= 12
    assert all(spec.automatic for spec in specs)
    assert {spec.dtype for spec in specs} == {"float32", "float64", "float16"}


@pytest.mark.gpu
def test_a_gpu_is_calibrated_in_time(kernel_cache):
    devices = list_devices()
    with Executor(cache_dir=kernel_cache, devices=devices[:1]) as executor:
        gpu = describe_gpu(devices[0])
        compile_kernels(list_measured(gpu), devices[0].arch, kernel_cache)
        executor.pool.prepare()
        began = time.perf_counter()
        profile = calibrate(executor, cache_dir=kernel_cache)
        assert time.perf_counter() - began < allow(CALIBRATION_SECONDS)
    check_cpu(profile.cpu)
    assert profile.device == devices[0].name
    assert tuple(link.memory for link in profile.links) == MEMORIES
    for link in profile.links:
        assert link.in_gbytes_per_second > 1
        assert link.out_gbytes_per_second > 1
        assert 1 <= link.duplex <= 2
        assert 0 < link.call_seconds < 5e-3
    assert all(profile.find_measured(spec) for spec in list_measured(gpu))
    assert read_profile(dump_profile(profile)) == profile


@pytest.mark.gpu
def test_gpus_are_calibrated_one_by_one_and_their_links_together(kernel_cache):
    told = []
    profile = calibrate_gpus(
        lambda devices: Executor(cache_dir=kernel_cache, devices=devices),
        select_devices("0,0"),
        cache_dir=kernel_cache,
        report=lambda what, share: told.append(share),
    )
    assert told == sorted(told)
    assert [gpu.device for gpu in profile.gpus] == 2 * [profile.device]
    joint = profile.joint
    assert joint.in_gbytes_per_second > 1
    assert joint.peer_gbytes_per_second > joint.in_gbytes_per_second
