"""The profile of this machine, read once, and again only when a calibration has changed."""

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from wavetrim.cpu.gemm import CpuPool
from wavetrim.kernels.device import DeviceInfo
from wavetrim.scheduler.cpu_model import CpuModel
from wavetrim.scheduler.cpu_survey import measure_cpu_briefly
from wavetrim.scheduler.machine import MachineProfile
from wavetrim.scheduler.profile import find_calibration, find_profile

_Version: TypeAlias = tuple[int, int, int] | None
"""What tells one file from the next of its name; None where there is none."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A profile, and the version of its file when it was read."""

    version: _Version
    profile: MachineProfile


class ProfileProvider:
    """Finds the profile of this machine. Safe to use from several threads.

    The same object is given until a calibration is stored, so plans can be kept with it
    (`scheduler/plan_cache.py`).

    Args:
        devices: The local GPUs.
        directory: Folder of stored calibrations; None when there is none.
        pool: The CPU, which is measured briefly where no calibration is stored.
    """

    def __init__(
        self, *, devices: Sequence[DeviceInfo], directory: Path | None, pool: CpuPool
    ) -> None:
        self._devices = tuple(devices)
        self._directory = directory
        self._pool = pool
        self._lock = threading.Lock()
        self._files: dict[bool, str] = {}
        self._known: dict[bool, _Known] = {}

    def find(self, *, cpu_only: bool = False) -> MachineProfile:
        """The profile to plan with, or the one of the CPU alone.

        Where no calibration is stored, the CPU is measured for a quarter of a second, once.
        """
        version = self._read_version(cpu_only)
        known = self._known.get(cpu_only)
        if known is None or known.version != version:
            with self._lock:
                known = self._known.get(cpu_only)
                if known is None or known.version != version:
                    known = _Known(version, self._find(cpu_only))
                    self._known[cpu_only] = known
        return known.profile

    def _find(self, cpu_only: bool) -> MachineProfile:
        profile = find_profile(
            "cpu" if cpu_only else None,
            devices=self._devices,
            directory=self._directory,
            cpu_threads=self._pool.threads,
        )
        return profile if profile.measured_at is not None else replace(profile, cpu=self._cpu)

    def _read_version(self, cpu_only: bool) -> _Version:
        if self._directory is None:
            return None
        path = self._files.get(cpu_only)
        if path is None:
            info = None if cpu_only or not self._devices else self._devices[0]
            path = str(find_calibration(info, self._directory, self._pool.threads))
            self._files[cpu_only] = path
        try:
            status = os.stat(path)  # noqa: PTH116 - a product that is asked for waits for it
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size

    @cached_property
    def _cpu(self) -> CpuModel:
        return measure_cpu_briefly(self._pool)
