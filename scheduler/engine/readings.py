"""Readings of the GPUs, taken every few seconds beside the work, for who asks whether they live.

A thread of its own takes them: a driver that hangs must not keep a ping from being answered.
"""

import threading
import time
from collections.abc import Sequence
from typing import Any, Final

from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.readings import open_readings

READ_SECONDS: Final = 5.0
"""Between two readings; Prometheus asks every 15 to 60 s. Chosen."""


class GpuReadings:
    """Takes readings until the process ends.

    Args:
        devices: The GPUs; without any, nothing is read.
    """

    def __init__(self, devices: Sequence[DeviceInfo]) -> None:
        self._devices = devices
        self._latest: list[dict[str, Any]] = []

    def start(self) -> None:
        """Begin."""
        if self._devices:
            threading.Thread(target=self._read, name="gpu-readings", daemon=True).start()

    def describe(self) -> dict[str, Any]:
        """The latest readings, as a part of a message; nothing where there are none."""
        return {"gpus": self._latest} if self._latest else {}

    def _read(self) -> None:
        read = open_readings(self._devices)
        while read is not None:
            self._latest = [reading.as_dict() for reading in read()]
            time.sleep(READ_SECONDS)
