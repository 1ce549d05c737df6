"""This machine for commands: its settings, GPUs, threads and folders."""

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeVar

from wavetrim.cpu.threads import count_default_threads
from wavetrim.kernels.device import DeviceInfo
from wavetrim.service.cli.exits import CommandFailed, ExitCode
from wavetrim.service.machine_settings import MachineSettings
from wavetrim.service.settings import Settings

_Read = TypeVar("_Read")


def load_settings(**options: Any) -> Settings:
    """The environment's settings, overridden by a command's options that are not None.

    Raises:
        CommandFailed: A setting is out of its limits; the message names it and its limit.
    """
    return _load(Settings, options)


def load_machine_settings(**options: Any) -> MachineSettings:
    """As `load_settings`, for commands that need no service: none of its own settings is read."""
    return _load(MachineSettings, options)


def _load(kind: Callable[..., _Read], options: Mapping[str, Any]) -> _Read:
    from pydantic import ValidationError

    from wavetrim.service.setting_refusal import tell_refused

    try:
        return kind(**{name: value for name, value in options.items() if value is not None})
    except ValidationError as error:
        broken = "; ".join(tell_refused(error))
        raise CommandFailed(f"setting refused: {broken}", ExitCode.REFUSED) from error


def find_devices(settings: MachineSettings) -> tuple[DeviceInfo, ...]:
    """The local GPUs that the settings allow.

    Raises:
        FieldError: One that they list is not there.
    """
    from wavetrim.scheduler.local.machine import find_gpus  # it needs NumPy, and plans do not

    return find_gpus(settings.devices)


def count_threads(settings: MachineSettings) -> int:
    """Threads of the CPU part."""
    return settings.cpu_threads or count_default_threads()


def check_folder(option: str, folder: Path) -> None:
    """Make a folder for what is to be measured, and make sure that files can be written into it.

    Raises:
        CommandFailed: They cannot.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            return
    except OSError as error:
        limit = f"a folder that can be written to ({error.strerror})"
        message = f"{option} is '{folder}'; it must be {limit}"
        raise CommandFailed(message, ExitCode.REFUSED) from error
