"""The provider of profiles for engine, plan routes, job checks and command line.

All of them see a new calibration at once, because each call reads the status of the stored file,
which takes a microsecond or two.
"""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from wavetrim.kernels.device import DeviceInfo
from wavetrim.scheduler.profile.corrections import Corrections
from wavetrim.scheduler.profile.machine import CpuModel, GpuModel, MachineProfile
from wavetrim.scheduler.profile.store import (
    build_profile_elsewhere,
    find_calibration,
    find_device,
    find_profile,
    is_elsewhere,
)

_Stamp = tuple[tuple[int, int, int] | None, ...]


class ProfileProvider:
    """Finds profiles by `find_profile`, and caches each until its calibration changes. Thread-safe.

    `measure_cpu` measures the CPU quickly if the machine was not calibrated; None to estimate it.
    """

    def __init__(
        self,
        *,
        directory: Path | None,
        devices: Sequence[DeviceInfo],
        cpu_threads: int,
        measure_cpu: Callable[[], CpuModel] | None = None,
    ) -> None:
        self._directory = directory
        self._devices = tuple(devices)
        self._cpu_threads = cpu_threads
        # Measured on first use: a calibrated machine starts without it.
        self._measure_cpu = measure_cpu and cache(measure_cpu)
        self._lock = threading.Lock()
        self._found: dict[str | None, tuple[_Stamp, MachineProfile]] = {}
        self._list_files = cache(self._list_files_of)

    def find(self, device: str | None = None) -> MachineProfile:
        """The profile of a device as `find_profile` names it.

        It is the same object until a calibration changes it.

        Raises:
            PlanError: `device` is neither local nor a preset.
        """
        name = None if device is None else device.casefold()
        stamp = tuple(map(_read_file_stamp, self._list_files(name)))
        found = self._found.get(name)
        if found is None or found[0] != stamp:
            with self._lock:
                found = self._found.get(name)
                if found is None or found[0] != stamp:
                    found = self._found[name] = stamp, self._find(device)
        return found[1]

    def describe(self, sheet: GpuModel, count: int) -> MachineProfile:
        """The profile of described GPUs beside this machine's CPU; made anew for each call."""
        return build_profile_elsewhere(
            sheet, sheet.source, count, self._directory, self._cpu_threads
        )

    def is_elsewhere(self, device: str | None) -> bool:
        """Whether a name is not that of a device of this machine."""
        return is_elsewhere(device, self._devices)

    def _find(self, device: str | None) -> MachineProfile:
        profile = find_profile(
            device,
            devices=self._devices,
            directory=self._directory,
            cpu_threads=self._cpu_threads,
        )
        if self.is_elsewhere(device):
            return profile
        is_whole = device is None or device.casefold() == "cpu"
        if is_whole and profile.measured_at is None and self._measure_cpu is not None:
            profile = replace(profile, cpu=self._measure_cpu())
        corrections = Corrections()
        beside = tuple(replace(one, corrections=corrections) for one in profile.beside)
        return replace(profile, beside=beside, corrections=corrections)

    def _list_files_of(self, name: str | None) -> tuple[str, ...]:
        """The calibrations of a local device, or of each GPU; for other devices their folder.

        A preset is planned with this machine's CPU, from any calibration in the folder.
        """
        directory = self._directory
        if directory is None:
            return ()
        if self.is_elsewhere(name):
            return (str(directory),)
        found: Sequence[DeviceInfo | None] = self._devices or (None,)
        if name is not None:
            found = [find_device(name, self._devices)]  # None for the CPU
        return tuple(str(find_calibration(info, directory, self._cpu_threads)) for info in found)


def _read_file_stamp(path: str) -> tuple[int, int, int] | None:
    """Identifies the version of a file; None without one."""
    try:
        status = os.stat(path)  # noqa: PTH116 - faster than pathlib, and each product waits for it
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size
