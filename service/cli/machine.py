"""This machine for commands: its settings, GPUs and threads, and plans for it."""

from typing import TYPE_CHECKING, Any, TypeVar

from wavetrim.service.cli.exits import CommandFailed, ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wavetrim.kernels.device import DeviceInfo
    from wavetrim.scheduler.options import PlanOptions
    from wavetrim.scheduler.planning.plan import Plan
    from wavetrim.scheduler.problem import GemmProblem
    from wavetrim.scheduler.profile.what_if import WhatIf
    from wavetrim.service.machine_settings import MachineSettings
    from wavetrim.service.settings import Settings


_Read = TypeVar("_Read")


def load_settings(**options: Any) -> "Settings":
    """The environment's settings, overridden by a command's options that are not None.

    Raises:
        CommandFailed: A setting is out of its limits; the message names it and its limit.
    """
    from wavetrim.service.settings import Settings

    return _load(Settings, options)


def load_machine_settings(**options: Any) -> "MachineSettings":
    """As `load_settings`, for commands that need no service: none of its own settings is read."""
    from wavetrim.service.machine_settings import MachineSettings

    return _load(MachineSettings, options)


def _load(kind: "Callable[..., _Read]", options: "Mapping[str, Any]") -> "_Read":
    from pydantic import ValidationError

    from wavetrim.service.setting_refusal import tell_refused

    try:
        return kind(**{name: value for name, value in options.items() if value is not None})
    except ValidationError as error:
        broken = "; ".join(tell_refused(error))
        raise CommandFailed(f"setting refused: {broken}", ExitCode.REFUSED) from error


def find_devices(settings: "MachineSettings") -> "tuple[DeviceInfo, ...]":
    """The local GPUs that the settings allow.

    Raises:
        FieldError: One that they list is not there.
    """
    from wavetrim.scheduler.local.machine import find_gpus

    return find_gpus(settings.devices)


def count_threads(settings: "MachineSettings") -> int:
    """Threads of the CPU part."""
    from wavetrim.cpu.threads import count_default_threads

    return settings.cpu_threads or count_default_threads()


def plan_here(
    problem: "GemmProblem",
    settings: "MachineSettings",
    *,
    device: str | None,
    options: "PlanOptions",
    what_if: "WhatIf",
) -> "Plan":
    """Plan a product for this machine, or for the device that is named.

    Raises:
        FieldError: The plan cannot be made.
    """
    from wavetrim.kernels.device import select_devices
    from wavetrim.scheduler.planning.choice import choose_plan
    from wavetrim.scheduler.profile.store import find_profile, is_elsewhere
    from wavetrim.scheduler.profile.what_if import suppose
    from wavetrim.service.storage.arena.memory_limit import count_memory

    # A GPU that is named need not be here, and neither need those of the settings.
    devices = find_devices(settings) if device is None else select_devices(settings.devices)
    profile = find_profile(
        device,
        devices=devices,
        directory=settings.profile_dir,
        cpu_threads=count_threads(settings),
    )
    problem.check_fits(None if is_elsewhere(device, devices) else count_memory())
    return choose_plan(problem, suppose(profile, what_if, problem.dtype), options)


def read_plan_options(
    *,
    kernel: str,
    tile: str | None,
    f: str,
    accuracy: str | None,
    sms: int | None,
    devices: str | None,
) -> "PlanOptions":
    """The plan's options from those of a command line.

    Raises:
        PlanError: An option is not valid for any product.
    """
    from wavetrim.scheduler.errors import PlanError
    from wavetrim.scheduler.options import PlanOptions, check_devices, find_accuracy

    if f != "auto" and not (f.isascii() and f.isdigit()):
        raise PlanError("f", f, '"auto" or a whole number of rows, 0…M')
    return PlanOptions(
        kernel=kernel,
        tile=tile,
        f="auto" if f == "auto" else int(f),
        accuracy=None if accuracy is None else find_accuracy(accuracy),
        sms=sms,
        devices=check_devices(devices),
    )
