"""The one provider of the profile that products are planned with.

Engine, plan routes, job checks and command line ask it, so all of them see a new calibration at
once: a stored profile appears in its folder by a rename, which changes the folder's time of
modification, and that is looked at each time. It takes a microsecond or two.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from wavetrim.kernels.device import DeviceInfo
from wavetrim.scheduler.cpu_model import CpuModel
from wavetrim.scheduler.machine import MachineProfile
from wavetrim.scheduler.profile import find_profile


class ProfileProvider:
    """Finds profiles, and remembers them until the folder of calibrations changes.

    Args:
        directory: Folder of stored calibrations; None when there is none.
        devices: The local GPUs.
        cpu_threads: Threads that the CPU path may use.
        measure_cpu: Measures the CPU briefly, for a machine that was not calibrated; None to
            leave it estimated.
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
        self._stamp: int | None = None
        self._found: dict[str | None, MachineProfile] = {}

    def find(self, device: str | None = None) -> MachineProfile:
        """The profile of a device, the same object until a calibration changes it.

        Args:
            device: A local GPU ("cuda:0", its UUID or name), a preset, or "cpu"; None means this
                machine: its first GPU, or its CPU where there is none.

        Raises:
            PlanError: `device` is neither here nor a preset.
        """
        stamp = self._read_stamp()
        if stamp != self._stamp:
            self._found, self._stamp = {}, stamp
        name = None if device is None else device.casefold()
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = self._find(device)
        return found

    def _find(self, device: str | None) -> MachineProfile:
        profile = find_profile(
            device,
            devices=self._devices,
            directory=self._directory,
            cpu_threads=self._cpu_threads,
        )
        is_here = device is None or device.casefold() == "cpu"
        if not is_here or profile.measured_at is not None or self._measure_cpu is None:
            return profile
        # Measured when it is first needed: a calibrated machine starts without it.
        if self._cpu is None:
            self._cpu = self._measure_cpu()
        return replace(profile, cpu=self._cpu)

    def _read_stamp(self) -> int | None:
        if self._directory is None:
            return None
        try:
            return self._directory.stat().st_mtime_ns
        except OSError:
            return None
