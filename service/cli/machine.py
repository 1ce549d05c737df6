"""This machine for commands: its settings, GPUs, profile and folders."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, TypeVar

from wavetrim.kernels.device import DeviceInfo, select_devices
from wavetrim.scheduler.errors import FieldError
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.store import find_profile
from wavetrim.service.cli.exits import CommandRefused
from wavetrim.service.machine_settings import MachineSettings

if TYPE_CHECKING:
    from wavetrim.scheduler.execution.executor import Executor

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine, as far as its settings allow commands to use it.

    Attributes:
        settings: Its settings.
        devices: Its GPUs.
    """

    settings: MachineSettings
    devices: tuple[DeviceInfo, ...]

    def find_profile(self, device: str | None = None) -> MachineProfile:
        """What plans are made from: for this machine, or for a device that is named."""
        return find_profile(
            device,
            devices=self.devices,
            directory=self.settings.profile_dir,
            cpu_threads=self.settings.count_threads(),
        )

    def open_executor(
        self, cache_dir: Path, devices: Sequence[DeviceInfo] | None = None
    ) -> "Executor":
        """An executor of all GPUs, or of some, which keeps in a folder what it compiles."""
        from wavetrim.scheduler.execution.executor import Executor  # it needs NumPy

        return Executor(
            cache_dir=cache_dir,
            devices=self.devices if devices is None else devices,
            cpu_threads=self.settings.count_threads(),
            gpu_memory_bytes=self.settings.gpu_memory_bytes,
        )


def find_machine(*, profile_dir: Path | None = None, device: str | None = None) -> Machine:
    """This machine, for commands that need no service: none of a service's settings is read.

    If a device to plan for is named, GPUs of the settings need not be here.
    """
    settings = load_settings(MachineSettings, profile_dir=profile_dir)
    if device is None:
        from wavetrim.scheduler.local.machine import find_gpus  # it needs NumPy, and plans do not

        devices = find_gpus(settings.devices)
    else:
        devices = select_devices(settings.devices)
    return Machine(settings, devices)


def load_settings(kind: Callable[..., _Read], **options: Any) -> _Read:
    """The environment's `Settings` or `MachineSettings`, but for options that are not None."""
    from pydantic import ValidationError

    from wavetrim.service.machine_settings import list_refused

    try:
        return kind(**{name: value for name, value in options.items() if value is not None})
    except ValidationError as error:
        told = "; ".join(sentence for *_, sentence in list_refused(error))
        raise CommandRefused(f"setting refused: {told}") from error


def check_folder(option: str, folder: Path) -> None:
    """Make a folder for what is to be measured, and make sure that files can be written into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            return
    except OSError as error:
        limit = f"a folder that can be written to ({error.strerror})"
        raise FieldError(option, str(folder), limit) from error
