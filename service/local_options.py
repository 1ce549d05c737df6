"""Options of products in the caller's own process: from the same settings as the service's."""

import atexit
import logging
import os
import shutil
import tempfile
from pathlib import Path

from pydantic import ValidationError

from wavetrim.scheduler.errors import FieldError
from wavetrim.scheduler.local.machine import LocalOptions
from wavetrim.service.setting_refusal import list_refused
from wavetrim.service.settings import Settings
from wavetrim.service.storage.arena.memory_limit import count_memory

logger = logging.getLogger(__name__)


def read_local_options() -> LocalOptions:
    """The options that the environment sets.

    What is compiled is kept in the user's cache, unless a setting names a folder for it.

    Raises:
        FieldError: A setting is out of its limits.
    """
    try:
        settings = Settings()
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
        return _make_own_cache()


def _make_own_cache() -> Path:
    """A folder for this process alone: libraries are run, so others must not write there."""
    folder, owner = Path(tempfile.mkdtemp(prefix="wavetrim-")), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    logger.warning("there is no home folder: what is compiled is kept in %s until the end", folder)
    return folder
