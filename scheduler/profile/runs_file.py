"""The file of a history of runs, which several processes read and write."""

import contextlib
import json
import logging
import math
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import astuple
from pathlib import Path
from reprlib import repr as shorten
from typing import Any, Final

from wavetrim.scheduler.model.corrections import RunClass
from wavetrim.scheduler.profile.shared_file import hold_lock, replace_text

logger = logging.getLogger(__name__)

FORMAT_VERSION: Final = 2

MOST_LOG_RATIO: Final = math.log(1e6)
"""Largest log ratio of a run, either way: one that took a million times as long as predicted was
suspended meanwhile. Chosen."""


class RunsFile:
    """Log ratios of runs, by class.

    What is damaged is passed over with a warning: a file that cannot be read as a whole, else its
    damaged classes.

    Args:
        path: The file.
        basis: Identifies the profile of the predictions; runs of another basis are ignored.
    """

    def __init__(self, path: Path, basis: str) -> None:
        self._path = path
        self._basis = basis
        self._seen_stamp: tuple[int, int] | None = None
        self.has_folder = False
        with contextlib.suppress(OSError):
            self.has_folder = path.parent.is_dir()

    def lock(self) -> AbstractContextManager[None]:
        """Keep others from writing, from `read_changes` until after `write`.

        Raises:
            OSError: The lock cannot be made.
        """
        return hold_lock(self._path)

    def read_changes(self) -> list[tuple[RunClass, float]] | None:
        """All runs in the file, if it is another one than was last read or written, else None.

        None, too, if it has another basis or cannot be read.
        """
        stamp = self._read_stamp()
        if stamp is None or stamp == self._seen_stamp:
            return None
        self._seen_stamp = stamp
        try:
            document: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8"))
            if (document["format"], document["basis"]) != (FORMAT_VERSION, self._basis):
                return None
            return self._list_runs(document["runs"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            logger.warning("%s is passed over: %s", self._path, error)
            return None

    def write(self, runs: Iterable[tuple[RunClass, Sequence[float]]]) -> None:
        """Replace the file.

        Raises:
            OSError: It cannot be written.
        """
        document = {
            "format": FORMAT_VERSION,
            "basis": self._basis,
            "runs": [[astuple(one), ratios] for one, ratios in runs],
        }
        replace_text(self._path, json.dumps(document) + "\n")
        self._seen_stamp = self._read_stamp()

    def _list_runs(self, entries: list[Any]) -> list[tuple[RunClass, float]]:
        found: list[tuple[RunClass, float]] = []
        errors = []
        for entry in entries:
            try:
                found += _read_entry(entry)
            except (ValueError, TypeError, OverflowError) as error:
                errors.append(error)
        if errors:
            text = "%d damaged classes in %s are passed over: %s"
            logger.warning(text, len(errors), self._path, errors[0])
        return found

    def _read_stamp(self) -> tuple[int, int] | None:
        with contextlib.suppress(OSError):
            status = self._path.stat()
            return status.st_mtime_ns, status.st_ino
        return None


def is_log_ratio(ratio: float) -> bool:
    """Whether a run can have this ratio; NaN is none."""
    return abs(ratio) <= MOST_LOG_RATIO


def _read_entry(entry: Any) -> list[tuple[RunClass, float]]:
    """The runs of a class.

    Raises:
        ValueError, TypeError, OverflowError: They are damaged.
    """
    (device, beside, bottleneck, product, seconds), ratios = entry
    texts = device, beside, bottleneck, product
    numbers = [float(ratio) for ratio in ratios]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"the class is {shorten(texts)}; it must be texts")
    if not 0 < float(seconds) < math.inf:
        raise ValueError(f"seconds is {seconds!r}; it must be a number above 0")
    if not all(map(is_log_ratio, numbers)):
        limit = f"{-MOST_LOG_RATIO:.3g} to {MOST_LOG_RATIO:.3g}"
        raise ValueError(f"the ratios are {shorten(ratios)}; they must be {limit}")
    run_class = RunClass(device, beside, bottleneck, product, float(seconds))
    return [(run_class, number) for number in numbers]
