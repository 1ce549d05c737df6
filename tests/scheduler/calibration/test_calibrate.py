"""Calibration of the CPU in a moment, and of a GPU; the whole CPU is in service/cli/test_cli.py."""

import time

import pytest

from tests.limit import allow
from wavetrim.cpu.gemm import CpuPool
from wavetrim.kernels.catalog import list_kernels
from wavetrim.kernels.compile import compile_kernels
from wavetrim.kernels.device import list_devices, select_devices
from wavetrim.scheduler.calibration.calibrate import CALIBRATION_SECONDS, calibrate
from wavetrim.scheduler.calibration.cpu import measure_cpu_briefly
from wavetrim.scheduler.calibration.gpus import calibrate_gpus
from wavetrim.scheduler.calibration.kernels import order_kernels
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.problem import ITEM_BYTES, MEMORIES
from wavetrim.scheduler.profile.store import describe_gpu


def test_a_brief_measurement_takes_a_moment_and_covers_every_element_type():
    with CpuPool(2) as pool:
        start = time.perf_counter()
        cpu = measure_cpu_briefly(pool)
        assert time.perf_counter() - start < allow(2)
    assert cpu.threads == 2
    assert {rate.dtype for rate in cpu.rates} == set(ITEM_BYTES)
    assert all(rate.gflops > 0 for rate in cpu.rates)


@pytest.mark.gpu
def test_a_gpu_is_calibrated_in_time(tmp_path, kernel_cache):
    devices = list_devices()
    with Executor(cache_dir=kernel_cache, devices=devices) as executor:
        specs = order_kernels(describe_gpu(devices[0]))
        compile_kernels(specs, devices[0].arch, kernel_cache)
        executor.pool.prepare()
        start = time.perf_counter()
        profile = calibrate(executor, cache_dir=kernel_cache, directory=tmp_path)
        assert time.perf_counter() - start < allow(CALIBRATION_SECONDS + 2)
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
            assert 0.5 <= share.stretch < 10
            assert 1 <= share.memory_stretch < 10
            assert 0.3 <= share.write_stretch < 10
            assert 1 <= share.write_link_stretch < 30
    for model in profile.kernels:
        assert model.slots % devices[0].sm_count == 0
        assert model.wave_k_seconds > 0, model
    measured = {model.kernel for model in profile.kernels if not model.assumed}
    here = {spec.name for spec in list_kernels(compute_capability=devices[0].compute_capability)}
    assert measured >= here & {"register", "bulk", "tensor", "cublas"}


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
    (joint,) = profile.joint
    assert (joint.memory, joint.gpus) == ("pinned", 2)
    assert joint.in_gbytes_per_second > 1
    assert profile.peer_gbytes_per_second > joint.in_gbytes_per_second
