"""The driver's readings of a GPU."""

import pytest

from wavetrim.kernels.device import DeviceInfo, list_devices
from wavetrim.kernels.nvml import GpuReading, open_readings


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
