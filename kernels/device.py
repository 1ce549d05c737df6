"""The CUDA devices of this machine."""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wavetrim.kernels.errors import DeviceUnavailable

_DRIVER_VERSION_FILE: Final = Path("/sys/module/nvidia/version")

DEVICES_SETTING: Final = r"^(none|(\d+|(GPU|MIG)-[\w/-]+)(,(\d+|(GPU|MIG)-[\w/-]+))*)$"
"""The form of WAVETRIM_DEVICES."""

# cudaDeviceAttr; CUDA 13 took both clocks out of cudaDeviceProp
_CLOCK_RATE: Final = 13
_MEMORY_CLOCK_RATE: Final = 36
_ALREADY_ENABLED: Final = 704  # cudaErrorPeerAccessAlreadyEnabled
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
        driver_version: Version of the driver; where the system does not tell, the newest CUDA that
            it supports.
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
    runtime, _ = _import_runtime()
    if runtime is None:
        return ()
    try:
        return tuple(_describe_device(runtime, index) for index in range(runtime.getDeviceCount()))
    except runtime.CUDARuntimeError as error:
        if error.status not in _NOTHING_THERE:
            logging.getLogger(__name__).warning("CUDA devices cannot be listed: %s", error)
        return ()


def explain_no_devices(choice: str | None = None) -> str:
    """Why there is no GPU to use.

    Args:
        choice: The setting WAVETRIM_DEVICES; None if it is not set.
    """
    if choice == "none":
        return "WAVETRIM_DEVICES is 'none'"
    runtime, reason = _import_runtime()
    if runtime is None:
        return reason
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    hint = "" if visible is None else f" (CUDA_VISIBLE_DEVICES is {visible!r})"
    try:
        return f"CUDA finds {runtime.getDeviceCount()} devices{hint}"
    except runtime.CUDARuntimeError as error:
        return f"CUDA finds no device: {error}{hint}"


def _import_runtime() -> tuple[Any, str]:
    """CuPy's runtime; None, and why, if it cannot be imported."""
    try:
        from cupy.cuda import runtime
    except ModuleNotFoundError as error:
        if error.name == "cupy":
            return None, "CuPy is not installed; wavetrim's extra gpu brings it"
        return None, f"CuPy cannot be imported: {error}"
    except Exception as error:  # made for another NumPy, or without CUDA's libraries
        return None, f"CuPy cannot be imported: {str(error).strip().partition(chr(10))[0]}"
    return runtime, ""


def select_devices(choice: str | None) -> tuple[DeviceInfo, ...]:
    """The GPUs to use, in the order of `choice`. A GPU that is listed twice counts as two.

    Args:
        choice: Indices ("0,1"), or UUIDs as nvidia-smi prints them ("GPU-…", "MIG-…"), or the
            beginnings of UUIDs if they are unique. None for all GPUs, "none" for none.
    """
    if choice is None or choice == "none":
        return list_devices() if choice is None else ()
    here = list_devices()
    return tuple(found for name in choice.split(",") if (found := find_listed(name, here)))


def find_listed(name: str, devices: Sequence[DeviceInfo]) -> DeviceInfo | None:
    """The device of this index or UUID, or of a UUID that begins so; None if not exactly one."""
    if name.isdigit():
        return next((info for info in devices if info.index == int(name)), None)
    # CUDA does not say whether a UUID is a whole GPU's or a part's (MIG).
    digits = name.casefold().removeprefix("gpu-").removeprefix("mig-")
    found = [info for info in devices if info.uuid[4:].casefold().startswith(digits)]
    return found[0] if len(found) == 1 and digits else None


def find_device(index: int) -> DeviceInfo:
    """The device of that index.

    Raises:
        DeviceUnavailable: There is no such device.
    """
    devices = list_devices()
    if not 0 <= index < len(devices):
        raise DeviceUnavailable(f"device is {index}; this machine has {len(devices)} CUDA devices")
    return devices[index]


def allow_access(index: int, peer: int) -> bool:
    """Let one GPU read and write another's memory from now on; False if the machine cannot.

    Args:
        index: CUDA's index of the GPU that reads and writes.
        peer: Index of the GPU whose memory it is.
    """
    if index == peer:
        return True
    from cupy.cuda import Device, runtime

    if not runtime.deviceCanAccessPeer(index, peer):
        return False
    with Device(index):
        try:
            runtime.deviceEnablePeerAccess(peer)
        except runtime.CUDARuntimeError as error:
            if error.status != _ALREADY_ENABLED:
                raise
    return True


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
