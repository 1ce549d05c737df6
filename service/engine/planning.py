"""The profile that the service plans with: the stored one, else what the engine found out."""

from wavetrim.cpu.threads import usable_cores
from wavetrim.kernels.device import DeviceInfo
from wavetrim.scheduler.machine import MachineProfile
from wavetrim.scheduler.profile import find_profile
from wavetrim.service.engine.supervisor import Engine
from wavetrim.service.settings import Settings


def find_planning_profile(
    engine: Engine, settings: Settings, device: str | None = None
) -> MachineProfile:
    """The profile of a device; None is this machine.

    A calibration may have been stored since the engine started, so the folder is looked at first.
    Without one, the engine's own profile holds: it has measured the CPU, if only briefly.

    Raises:
        PlanError: `device` is neither here nor a preset.
    """
    profile = find_profile(
        device,
        devices=read_devices(engine),
        directory=settings.profile_dir,
        cpu_threads=engine.cpu_threads or settings.cpu_threads or usable_cores(),
    )
    if device is None and profile.measured_at is None and engine.profile is not None:
        return engine.profile
    return profile


def read_devices(engine: Engine) -> tuple[DeviceInfo, ...]:
    """The GPUs that the engine has reported."""
    return tuple(
        DeviceInfo(**{**info, "compute_capability": tuple(info["compute_capability"])})
        for info in engine.devices
    )
