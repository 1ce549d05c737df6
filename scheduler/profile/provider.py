"""The provider of profiles for engine, plan routes, job checks and command line.

All of them see a new calibration at once: the stored file's status is read each time, which takes a
microsecond or two.
"""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from wavetrim.kernels.device import DeviceInfo
from wavetrim.scheduler.model.corrections import Correction
from wavetrim.scheduler.model.cpu import CpuModel
from wavetrim.scheduler.profile.history import RunHistory
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.store import (
    RUNS_SUFFIX,
    find_calibration,
    find_device,
    find_profile,
)

_Stamp = tuple[int, int, int]


class ProfileProvider:
    """Finds profiles, and caches each until its calibration changes. Thread-safe.

    Args:
        directory: Folder of stored calibrations; None for none.
        devices: The local GPUs.
        cpu_threads: Threads of the CPU path.
        measure_cpu: Measures the CPU briefly if the machine was not calibrated; None to estimate
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
        self._found: dict[str | None, tuple[_Stamp | None, MachineProfile]] = {}
        self._paths: dict[str | None, str] = {}
        self._histories: dict[str | None, RunHistory] = {}

    def find(self, device: str | None = None) -> MachineProfile:
        """The profile of a device, the same object until a calibration changes it.

        Args:
            device: A local GPU ("cuda:0", its UUID or name), a preset, or "cpu"; None for this
                machine's first GPU, or its CPU if it has none.

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
        if name in self._histories:
            self._histories[name].refresh()
        return found[1]

    def list_corrections(self) -> list[Correction]:
        """The median ratio of each device of this machine."""
        self.find()
        return self._histories[None].list_factors()

    def save_runs(self) -> None:
        """Write all unsaved runs."""
        for history in self._histories.values():
            history.save()

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
        return self._add_history(device, profile)

    def _add_history(self, device: str | None, profile: MachineProfile) -> MachineProfile:
        """The profile with its history of runs; presets have none."""
        name = None if device is None else device.casefold()
        calibration = self._locate(name)
        if not calibration and name not in (None, "cpu"):
            return profile
        path = Path(calibration).with_suffix(RUNS_SUFFIX) if calibration else None
        history = RunHistory(path, basis=f"{profile.source} {profile.measured_at or ''}".strip())
        self._histories[name] = history
        return replace(profile, corrections=history)

    def _read_stamp(self, name: str | None) -> _Stamp | None:
        """Identifies the version of a stored calibration; None without one."""
        path = self._paths.get(name)
        if path is None:
            # A preset stands beside this machine's CPU, of which any calibration there may be.
            path = self._paths[name] = self._locate(name) or str(self._directory or "")
        if not path:
            return None
        try:
            status = os.stat(path)  # noqa: PTH116 - a product that is asked for waits for it
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size

    def _locate(self, name: str | None) -> str:
        """The file of a local device's calibration; empty for other devices."""
        info = None if name == "cpu" else find_device(name, self._devices)
        if self._directory is None or (info is None and name not in (None, "cpu")):
            return ""
        return str(find_calibration(info, self._directory, self._cpu_threads))
