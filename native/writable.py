"""A folder for compiled files: the wanted one, or a temporary one of this process."""

import atexit
import logging
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

logger = logging.getLogger(__name__)


@cache
def find_writable(folder: Path) -> Path:
    """The folder, created if missing; if it cannot be written, a temporary one of this process.

    Raises:
        OSError: Neither can be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        # What is compiled is run, so others must not write there.
        own, owner = Path(tempfile.mkdtemp(prefix="wavetrim-")), os.getpid()
        text = "nothing can be kept in %s (%s): what is compiled is kept in %s until the end"
        logger.warning(text, folder, error.strerror, own)

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(own, ignore_errors=True)

    atexit.register(remove)
    return own
