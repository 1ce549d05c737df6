import dataclasses

import pytest

from tests.processes import expect_output
from wavetrim.kernels.device import DeviceInfo, find_device, list_devices, name_arch
from wavetrim.kernels.errors import DeviceUnavailable


@pytest.mark.parametrize(
    ("compute_capability", "arch"),
    [((7, 5), "sm_75"), ((8, 6), "sm_86"), ((9, 0), "sm_90a"), ((10, 0), "sm_100")],
)
def test_arch_is_the_compilers_name_of_the_compute_capability(compute_capability, arch):
    assert name_arch(compute_capability) == arch


def test_devices_are_listed_without_an_error_on_every_machine():
    assert all(isinstance(device, DeviceInfo) for device in list_devices())


def test_hidden_devices_are_not_listed():
    program = "from wavetrim.kernels.device import list_devices; print(len(list_devices()))"
    expect_output(program, prints="0\n", CUDA_VISIBLE_DEVICES="")


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
