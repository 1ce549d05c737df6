"""A file made ahead for the next product, so that its pages are in memory when it is needed.

The next product is likely to be as large as the last one, and while that one goes to the disk
nothing else is to be done. A spare file holds zeros only: no matrix that was removed comes back in
it.
"""

import logging
import threading
import uuid
from pathlib import Path
from typing import Final

import numpy as np

from wavetrim.cpu.threads import usable_cores
from wavetrim.scheduler.pages import PREPARED_BYTES, prepare_pages
from wavetrim.service.storage.new_file import make_file

logger = logging.getLogger(__name__)

LEAST_BYTES: Final = 8 * 2**20
"""The pages of a smaller file are made in less time than it takes to ask for them."""

MOST_BYTES: Final = PREPARED_BYTES
"""Of a larger file not all pages are made."""


class SpareFile:
    """At most one file, made by a thread of its own. Thread-safe.

    Args:
        folder: Where the file is, as `spare-….part`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._size_bytes = 0
        self._thread: threading.Thread | None = None

    @property
    def size_bytes(self) -> int:
        """What it takes, or will take when it is complete; 0 while there is none."""
        return self._size_bytes

    def make(self, size_bytes: int) -> None:
        """Begin to make a file of this size; one of another size is removed.

        Nothing happens while one is being made, or if the size is not worth it.
        """
        with self._lock:
            being_made = self._size_bytes > 0 and self._path is None
            if being_made or size_bytes == self._size_bytes:
                return
            self._remove()
            if not LEAST_BYTES <= size_bytes <= MOST_BYTES:
                return
            self._size_bytes = size_bytes
            self._thread = threading.Thread(
                target=self._make, args=(size_bytes,), name="spare-file", daemon=True
            )
            self._thread.start()

    def take(self, size_bytes: int, path: Path) -> bool:
        """Give the file away under another name of its folder, if it is of this size.

        One that is being made is waited for: to begin another would take longer.

        Returns:
            Whether the file is there.
        """
        if size_bytes == self._size_bytes and (thread := self._thread) is not None:
            thread.join()
        with self._lock:
            if self._path is None or size_bytes != self._size_bytes:
                return False
            try:
                self._path.rename(path)
            except OSError:
                logger.exception("the spare file cannot be used")
                self._remove()
                return False
            self._path, self._size_bytes = None, 0
            return True

    def drop(self) -> None:
        """Remove the file; one that is being made is waited for."""
        if (thread := self._thread) is not None:
            thread.join()
        with self._lock:
            self._remove()

    def _remove(self) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        self._path, self._size_bytes = None, 0

    def _make(self, size_bytes: int) -> None:
        path = self._folder / f"spare-{uuid.uuid4().hex}.part"
        try:
            make_file(path, size_bytes)
            _make_pages(path, max(1, usable_cores() // 2))
        except OSError as error:
            logger.info("there is no spare file: %s", error.strerror)
            path.unlink(missing_ok=True)
            with self._lock:
                self._size_bytes = 0
        else:
            with self._lock:
                self._path = path


def _make_pages(path: Path, threads: int) -> None:
    """Have the pages of a new file made, where there is memory for them."""
    with prepare_pages(np.memmap(path, np.uint8, "r+"), (), threads=threads):
        pass
