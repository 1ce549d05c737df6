"""Memory, clocks, temperature and power of a GPU at this moment, by NVML."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from wavetrim.kernels.device import DeviceInfo

logger = logging.getLogger(__name__)

_SM_CLOCK: Final = 1
_MEMORY_CLOCK: Final = 2
"""nvmlClockType_t."""

_DEGREES: Final = 0
"""nvmlTemperatureSensors_t: of the GPU itself."""


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU at one moment; None for what its driver does not report.

    Attributes:
        index: CUDA's index of the device.
        memory_used_bytes: Device memory in use by all processes.
        clock_mhz: The multiprocessors' clock.
        memory_clock_mhz: The memory's clock.
        temperature_celsius: The chip's temperature.
        power_watts: Power drawn.
    """

    index: int
    memory_used_bytes: int | None
    clock_mhz: int | None
    memory_clock_mhz: int | None
    temperature_celsius: int | None
    power_watts: float | None

    def as_dict(self) -> dict[str, Any]:
        """What is known, for a message."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in named.items() if value is not None}


def open_readings(devices: Sequence[DeviceInfo]) -> Callable[[], list[GpuReading]] | None:
    """A function that reads the devices; None if NVML is missing or does not know one of them.

    It takes up to a few milliseconds, and delays no kernel.
    """
    if not devices:
        return None
    try:
        from cuda.bindings import nvml

        nvml.init_v2()
        handles = {info.index: nvml.device_get_handle_by_uuid(info.uuid) for info in devices}
    except Exception as error:  # no library, no driver or no such device: each has its own
        logger.warning("memory and clocks of the GPUs cannot be read: %s", error)
        return None
    return lambda: [_read_device(nvml, index, handle) for index, handle in handles.items()]


def _read_device(nvml: Any, index: int, handle: int) -> GpuReading:
    power_milliwatts = _ask(nvml, lambda: nvml.device_get_power_usage(handle))
    return GpuReading(
        index=index,
        memory_used_bytes=_ask(nvml, lambda: nvml.device_get_memory_info_v2(handle).used),
        clock_mhz=_ask(nvml, lambda: nvml.device_get_clock_info(handle, _SM_CLOCK)),
        memory_clock_mhz=_ask(nvml, lambda: nvml.device_get_clock_info(handle, _MEMORY_CLOCK)),
        temperature_celsius=_ask(nvml, lambda: nvml.device_get_temperature_v(handle, _DEGREES)),
        power_watts=None if power_milliwatts is None else power_milliwatts / 1000,
    )


def _ask(nvml: Any, question: Callable[[], Any]) -> Any:
    """The answer as a plain number; None if this GPU, its partition or its driver has none."""
    try:
        return int(question())
    except (nvml.NvmlError, RuntimeError):  # the latter: an older driver lacks the function
        return None
