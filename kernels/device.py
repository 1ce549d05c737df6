"""The CUDA devices of this machine."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wavetrim.kernels.errors import DeviceUnavailable

_DRIVER_VERSION_FILE: Final = Path("/sys/module/nvidia/version")
# cudaDeviceAttr; CUDA 13 took both clocks out of cudaDeviceProp
_CLOCK_RATE: Final = 13
_MEMORY_CLOCK_RATE: Final = 36
# cudaError_t: no driver, one that is too old, no device, or all devices hidden
_NOTHING_THERE: Final = frozenset({3, 35, 100, 101})


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One CUDA device.

    Attributes:
        index: CUDA's index of the device in this process.
        name: The vendor's name, such as "NVIDIA H200".
        uuid: "GPU-…", the same in every process.
        compute_capability: (major, minor).
        sm_count: Streaming multiprocessors.
        memory_bytes: Device memory.
        clock_mhz: Highest clock of the multiprocessors.
        memory_clock_mhz: Highest clock of the memory.
        driver_version: Version of the driver, else of the CUDA version that it supports.
        runtime_version: Version of the CUDA runtime, such as "13.0".
    """

    index: int
    name: str
    uuid: str
    compute_capability: tuple[int, int]
    sm_count: int
    memory_bytes: int
    clock_mhz: int
    memory_clock_mhz: int
    driver_version: str
    runtime_version: str

    @property
    def arch(self) -> str:
        """Architecture to compile for on this device, such as "sm_90a"."""
        return name_arch(self.compute_capability)


def name_arch(compute_capability: tuple[int, int]) -> str:
    """Name of an architecture for the compiler: (8, 6) → "sm_86".

    9.0 becomes "sm_90a": instructions that only Hopper has, such as wgmma, need the suffix.
    """
    major, minor = compute_capability
    return f"sm_{major}{minor}" + ("a" if (major, minor) == (9, 0) else "")


def list_devices() -> tuple[DeviceInfo, ...]:
    """All CUDA devices of this process, in CUDA's order; empty without driver, GPU or CuPy."""
    try:
        from cupy.cuda import runtime
    except ImportError:
        return ()
    try:
        return tuple(_describe_device(runtime, index) for index in range(runtime.getDeviceCount()))
    except runtime.CUDARuntimeError as error:
        if error.status not in _NOTHING_THERE:
            logging.getLogger(__name__).warning("CUDA devices cannot be listed: %s", error)
        return ()


def explain_no_devices() -> str:
    """Why `list_devices` finds nothing."""
    try:
        from cupy.cuda import runtime
    except ImportError:
        return "CuPy is not installed; wavetrim's extra gpu brings it"
    try:
        return f"CUDA finds {runtime.getDeviceCount()} devices"
    except runtime.CUDARuntimeError as error:
        return f"CUDA finds no device: {error}"


def select_devices(choice: str | None) -> tuple[DeviceInfo, ...]:
    """The GPUs to use: all for None, none for "none", else those of the listed indices ("0,1").

    They come in the order of the list. A GPU that is listed twice counts as two.
    """
    if choice is None or choice == "none":
        return list_devices() if choice is None else ()
    here = {info.index: info for info in list_devices()}
    wanted = (int(index) for index in choice.split(","))
    return tuple(here[index] for index in wanted if index in here)


def find_device(index: int) -> DeviceInfo:
    """The device of that index.

    Raises:
        DeviceUnavailable: There is no such device.
    """
    devices = list_devices()
    if not 0 <= index < len(devices):
        raise DeviceUnavailable(f"device is {index}; this machine has {len(devices)} CUDA devices")
    return devices[index]


def _describe_device(runtime: Any, index: int) -> DeviceInfo:
    properties = runtime.getDeviceProperties(index)
    cuda_version = _format_version(runtime.driverGetVersion())
    return DeviceInfo(
        index=index,
        name=properties["name"].decode(),
        uuid=_format_uuid(properties["uuid"]),
        compute_capability=(properties["major"], properties["minor"]),
        sm_count=properties["multiProcessorCount"],
        memory_bytes=properties["totalGlobalMem"],
        clock_mhz=runtime.deviceGetAttribute(_CLOCK_RATE, index) // 1000,
        memory_clock_mhz=runtime.deviceGetAttribute(_MEMORY_CLOCK_RATE, index) // 1000,
        driver_version=_read_driver_version() or cuda_version,
        runtime_version=_format_version(runtime.runtimeGetVersion()),
    )


def _read_driver_version() -> str | None:
    try:
        return _DRIVER_VERSION_FILE.read_text(encoding="ascii").strip()
    except OSError:
        return None


def _format_version(version: int) -> str:
    """CUDA's version number as text: 13010 → "13.1"."""
    return f"{version // 1000}.{version % 1000 // 10}"


def _format_uuid(raw: bytes) -> str:
    """The 16 bytes of a UUID as nvidia-smi prints them."""
    digits = raw[:16].hex()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32])
    return "GPU-" + "-".join(parts)
