"""The GPUs of a machine, the driver's readings of them, and the cores near them."""

import dataclasses
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from wavetrim.kernels.device import DeviceInfo, find_device, list_devices, name_arch
from wavetrim.kernels.errors import DeviceUnavailable
from wavetrim.kernels.nvml import GpuReading, open_readings
from wavetrim.kernels.transfer.nodes import find_cores, stay_beside


@pytest.mark.parametrize(
    ("compute_capability", "arch"),
    [((7, 5), "sm_75"), ((8, 6), "sm_86"), ((9, 0), "sm_90a"), ((10, 0), "sm_100")],
)
def test_arch_is_the_compilers_name_of_the_compute_capability(compute_capability, arch):
    assert name_arch(compute_capability) == arch


def test_a_device_that_is_not_there_is_refused_by_its_number():
    with pytest.raises(DeviceUnavailable, match="device is 64; this machine has"):
        find_device(64)


@pytest.mark.gpu
def test_a_device_has_what_the_planner_and_the_compiler_need():
    device = list_devices()[0]
    assert device.index == 0
    assert device.uuid.startswith("GPU-")
    assert len(device.uuid) == len("GPU-") + 36
    assert device.compute_capability >= (7, 5)
    assert device.sm_count > 0
    assert device.memory_bytes > 2**30
    assert device.clock_mhz > 100
    assert device.memory_clock_mhz > 100
    assert device.driver_version[0].isdigit()
    assert device.runtime_version[0].isdigit()
    assert device.arch == name_arch(device.compute_capability)
    assert dataclasses.replace(device) == find_device(0)


def test_without_a_gpu_or_a_driver_nothing_is_read():
    assert open_readings([]) is None
    gone = DeviceInfo(0, "none", f"GPU-{'0' * 36}", (9, 0), 1, 1, 1, 1, "1", "1")
    assert open_readings([gone]) is None


def test_readings_that_a_driver_lacks_are_left_out():
    reading = GpuReading(0, 2**30, 1980, None, None, 75.5)
    told = {"index": 0, "memory_used_bytes": 2**30, "clock_mhz": 1980, "power_watts": 75.5}
    assert reading.as_dict() == told


@pytest.mark.gpu
def test_each_gpu_has_readings_of_memory_clocks_and_power():
    devices = list_devices()
    read = open_readings(devices)
    for info, reading in zip(devices, read(), strict=True):
        assert reading.index == info.index
        assert 0 < reading.memory_used_bytes <= info.memory_bytes * 1.1
        assert 0 < reading.clock_mhz <= info.clock_mhz
        assert 0 < reading.memory_clock_mhz <= info.memory_clock_mhz
        assert 0 < reading.temperature_celsius < 120
        assert 1 < reading.power_watts < 2000


@pytest.mark.parametrize(
    ("node", "listed", "cores"),
    [
        ("1", "0-3,8", {0, 1, 2, 3, 8}),
        ("0", "5", {5}),
        ("-1", "0-3", set()),
        ("0", "", set()),
        ("none", "0-3", set()),
    ],
)
def test_the_cores_near_a_device_are_read(tmp_path, node, listed, cores):
    device = tmp_path / "0000:3b:00.0"
    device.mkdir()
    (device / "numa_node").write_text(f"{node}\n")
    (device / "local_cpulist").write_text(f"{listed}\n")
    assert find_cores("0000:3B:00.0", tmp_path) == cores
    assert find_cores("0000:5E:00.0", tmp_path) == frozenset()


def test_only_the_calling_thread_stays_on_the_cores():
    usable = os.sched_getaffinity(0)
    some = frozenset(sorted(usable)[:1])
    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(threading.get_native_id).result()
        with stay_beside(some):
            assert os.sched_getaffinity(0) == some
            assert os.sched_getaffinity(other) == usable
    assert os.sched_getaffinity(0) == usable
    with stay_beside(frozenset([4095])):  # not there
        assert os.sched_getaffinity(0) == usable
