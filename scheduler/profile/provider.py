"""The provider of profiles for engine, plan routes, job checks and command line.

All of them see a new calibration at once, because each call reads the status of the stored file,
which takes a microsecond or two.
"""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from wavetrim.kernels.device import DeviceInfo
from wavetrim.scheduler.profile.corrections import Corrections
from wavetrim.scheduler.profile.machine import CpuModel, MachineProfile
from wavetrim.scheduler.profile.store import (
    build_profile_elsewhere,
    find_calibration,
    find_device,
    find_profile,
    is_elsewhere,
)
from wavetrim.scheduler.profile.what_if import DescribedGpu

_Stamp = tuple[tuple[int, int, int] | None, ...]


class ProfileProvider:
    """Finds profiles, and caches each until its calibration changes. Thread-safe.

    Args:
        directory: Folder of stored calibrations; None for none.
        devices: The local GPUs.
        cpu_threads: Threads of the CPU path.
        measure_cpu: Measures the CPU quickly if the machine was not calibrated; None to estimate
            it.
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
        self._measure_cpu = measure_cpu
        self._cpu: CpuModel | None = None
        self._lock = threading.Lock()
        self._found: dict[str | None, tuple[_Stamp, MachineProfile]] = {}
        self._paths: dict[str | None, tuple[str, ...]] = {}

    def find(self, device: str | None = None) -> MachineProfile:
        """The profile of a device, the same object until a calibration changes it.

        Args:
            device: A local GPU ("cuda:0", its UUID or name), a preset, several of one preset
                ("H200 x2"), or "cpu"; None for all of this machine's GPUs, or its CPU if it has
                none.

        Raises:
            PlanError: `device` is neither local nor a preset.
        """
        name = None if device is None else device.casefold()
        stamp = self._read_stamp(name)
        found = self._found.get(name)
        if found is None or found[0] != stamp:
            with self._lock:
                found = self._found.get(name)
                if found is None or found[0] != stamp:
                    found = self._found[name] = stamp, self._find(device)
        return found[1]

    def describe(self, gpu: DescribedGpu) -> MachineProfile:
        """The profile of a described GPU beside this machine's CPU; made anew for each call."""
        sheet = gpu.derive_sheet()
        return build_profile_elsewhere(
            sheet, sheet.source, gpu.count, self._directory, self._cpu_threads
        )

    def is_elsewhere(self, device: str | None) -> bool:
        """Whether a name is not that of a device of this machine."""
        return is_elsewhere(device, self._devices)

    @property
    def corrections(self) -> Corrections:
        """What this machine's runs tell of its predictions."""
        return self.find().corrections

    def _find(self, device: str | None) -> MachineProfile:
        profile = find_profile(
            device,
            devices=self._devices,
            directory=self._directory,
            cpu_threads=self._cpu_threads,
        )
        is_here = device is None or device.casefold() == "cpu"
        if is_here and profile.measured_at is None and self._measure_cpu is not None:
            # Measured on first use: a calibrated machine starts without it.
            if self._cpu is None:
                self._cpu = self._measure_cpu()
            profile = replace(profile, cpu=self._cpu)
        if is_elsewhere(device, self._devices):
            return profile
        corrections = Corrections()
        beside = tuple(replace(one, corrections=corrections) for one in profile.beside)
        return replace(profile, beside=beside, corrections=corrections)

    def _read_stamp(self, name: str | None) -> _Stamp:
        """Identifies the versions of the stored calibrations of a device, or of all."""
        paths = self._paths.get(name)
        if paths is None:
            paths = self._locate(name)
            if not paths and self._directory is not None:
                # A preset is planned with this machine's CPU, from any calibration in the folder.
                paths = (str(self._directory),)
            self._paths[name] = paths
        return tuple(map(_read_file_stamp, paths))

    def _locate(self, name: str | None) -> tuple[str, ...]:
        """The file of a local device's calibration, or of each GPU's; none for other devices."""
        if self._directory is None:
            return ()
        found: Sequence[DeviceInfo | None] = self._devices
        if name is not None or not self._devices:
            info = None if name == "cpu" else find_device(name, self._devices)
            found = [info] if info is not None or name in (None, "cpu") else []
        directory, threads = self._directory, self._cpu_threads
        return tuple(str(find_calibration(info, directory, threads)) for info in found)


def _read_file_stamp(path: str) -> tuple[int, int, int] | None:
    """Identifies the version of a file; None without one."""
    try:
        status = os.stat(path)  # noqa: PTH116 - faster than pathlib, and each product waits for it
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size
