"""The GPUs of a machine, and the driver's readings of them."""

import dataclasses

import pytest

from wavetrim.kernels.device import DeviceInfo, find_device, list_devices, name_arch
from wavetrim.kernels.errors import DeviceUnavailable
from wavetrim.kernels.nvml import GpuReading, open_readings


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
