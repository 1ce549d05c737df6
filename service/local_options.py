"""Options of products in the caller's own process: from the settings of the machine alone."""

import os
from pathlib import Path

from pydantic import ValidationError

from wavetrim.scheduler.errors import FieldError
from wavetrim.scheduler.local.machine import LocalOptions
from wavetrim.service.machine_settings import MachineSettings
from wavetrim.service.setting_refusal import list_refused
from wavetrim.service.storage.arena.memory_limit import count_memory


def read_local_options() -> LocalOptions:
    """The options that the environment sets.

    What is compiled is kept in the user's cache, unless a setting names a folder for it.

    Raises:
        FieldError: A setting is out of its limits.
    """
    try:
        settings = MachineSettings()
    except ValidationError as error:
        raise FieldError(*next(list_refused(error))) from error
    named = settings.model_fields_set & {"data_dir", "kernel_cache_dir"}
    return LocalOptions(
        cache_dir=settings.kernel_cache_dir if named else _find_user_cache(),
        profile_dir=settings.profile_dir,
        devices=settings.devices,
        cpu_threads=settings.cpu_threads,
        gpu_memory_bytes=settings.gpu_memory_bytes and int(settings.gpu_memory_bytes),
        memory_bytes=count_memory(),
    )


def _find_user_cache() -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if root.is_absolute():
        return root / "wavetrim"
    try:
        return Path.home() / ".cache" / "wavetrim"
    except RuntimeError:  # neither HOME nor an account, as for a container's user by number
        return Path(os.devnull) / "wavetrim"  # nothing can be written there
