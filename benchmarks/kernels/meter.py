"""Clock and power of a GPU while it works, read through the driver's NVML library."""

import ctypes
import time
from dataclasses import dataclass
from typing import Final

_LIBRARY: Final = "libnvidia-ml.so.1"
_CLOCK_SM: Final = 1  # nvmlClockType_t
_POWER_INSTANT: Final = 186  # NVML_FI_DEV_POWER_INSTANT
_MOST_SHARE: Final = 0.1
"""Largest share of the time that readings may take; chosen, as drivers differ in their speed."""


class _FieldValue(ctypes.Structure):
    """nvmlFieldValue_t."""

    _fields_ = (
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("value_type", ctypes.c_uint),
        ("status", ctypes.c_uint),
        ("value", ctypes.c_ulonglong),
    )


@dataclass(frozen=True, slots=True)
class Reading:
    """Clock and power at one moment.

    Attributes:
        clock_mhz: Clock of the multiprocessors; None if it cannot be read.
        power_watts: Power that the GPU draws; None if it cannot be read.
    """

    clock_mhz: float | None
    power_watts: float | None


class Meter:
    """Reads one GPU. Without NVML, or without that GPU, readings hold None."""

    def __init__(self, uuid: str) -> None:
        self._device = ctypes.c_void_p()
        self._library: ctypes.CDLL | None = None
        self._due_seconds = 0.0
        try:
            library = ctypes.CDLL(_LIBRARY)
            found = library.nvmlInit_v2() == 0 and (
                library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(self._device)) == 0
            )
        except (OSError, AttributeError):
            return
        if found:
            self._library = library

    @property
    def works(self) -> bool:
        """Whether it has a GPU to read."""
        return self._library is not None

    def read(self) -> Reading:
        """Clock and power now."""
        if self._library is None:
            return Reading(None, None)
        return Reading(self._read_clock(self._library), self._read_power(self._library))

    def read_if_due(self) -> Reading | None:
        """Clock and power now; None until the last reading is old enough for _MOST_SHARE."""
        began = time.perf_counter()
        if began < self._due_seconds:
            return None
        reading = self.read()
        took_seconds = time.perf_counter() - began
        self._due_seconds = began + took_seconds / _MOST_SHARE
        return reading

    def _read_clock(self, library: ctypes.CDLL) -> float | None:
        clock = ctypes.c_uint()
        status = library.nvmlDeviceGetClockInfo(self._device, _CLOCK_SM, ctypes.byref(clock))
        return float(clock.value) if status == 0 else None

    def _read_power(self, library: ctypes.CDLL) -> float | None:
        """The power now, if the driver has it, else its mean over the last second."""
        value = _FieldValue(field=_POWER_INSTANT)
        status = library.nvmlDeviceGetFieldValues(self._device, 1, ctypes.byref(value))
        if status == 0 and value.status == 0:
            return float(value.value & 0xFFFFFFFF) / 1e3
        milliwatts = ctypes.c_uint()
        status = library.nvmlDeviceGetPowerUsage(self._device, ctypes.byref(milliwatts))
        return milliwatts.value / 1e3 if status == 0 else None
