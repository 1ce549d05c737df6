"""Options of products in the caller's own process: from the settings of the machine alone."""

import os
from dataclasses import replace

from wavetrim.scheduler.errors import FieldError
from wavetrim.scheduler.options import MachineOptions
from wavetrim.service.folders import DATA_DIR, find_user_cache, make_absolute
from wavetrim.service.storage.memory.memory_limit import count_memory


def read_local_options() -> MachineOptions:
    """The options that the environment sets.

    Raises:
        FieldError: A setting is out of its limits.
    """
    if not any(name.upper().startswith("WAVETRIM_") for name in os.environ):
        # What reads settings takes longer to import than all that a small product needs.
        profile_dir = make_absolute(DATA_DIR) / "profiles"
        return MachineOptions(find_user_cache(), profile_dir, memory_bytes=count_memory())
    from pydantic import ValidationError

    from wavetrim.service.machine_settings import MachineSettings, list_refused

    try:
        settings = MachineSettings()
    except ValidationError as error:
        raise FieldError(*next(list_refused(error))[:3]) from error
    options = replace(settings.make_options(), kernel_cache_dir=settings.own_cache_dir)
    return replace(options, memory_bytes=count_memory())
