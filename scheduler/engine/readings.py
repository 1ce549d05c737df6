"""Readings of the GPUs, taken every few seconds, for pongs.

A thread of its own takes them: a driver that hangs must not keep a ping from being answered.
"""

import threading
import time
from collections.abc import Sequence
from typing import Any, Final

from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.readings import open_readings

READ_SECONDS: Final = 5.0
"""Time between two readings. Chosen: Prometheus asks every 15 to 60 s."""


class GpuReadings:
    """Takes readings until the process ends."""

    def __init__(self, devices: Sequence[DeviceInfo]) -> None:
        self._devices = devices
        self._latest: list[dict[str, Any]] = []

    def start(self) -> None:
        """Start the thread."""
        if self._devices:
            threading.Thread(target=self._read, name="gpu-readings", daemon=True).start()

    def describe(self) -> dict[str, Any]:
        """The latest readings, as fields of a message; no fields without readings."""
        return {"gpus": self._latest} if self._latest else {}

    def _read(self) -> None:
        read = open_readings(self._devices)
        while read is not None:
            self._latest = [reading.as_dict() for reading in read()]
            time.sleep(READ_SECONDS)
