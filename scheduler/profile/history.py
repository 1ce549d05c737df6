"""The runs of a machine: ratios of measured to predicted seconds, stored next to its profile.

A history belongs to one profile, and begins empty with another. Its file has the profile's name,
for GPU, driver, libraries and threads. Several processes may share it: each adds its own runs.
"""

import contextlib
import json
import logging
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import Any, Final

from wavetrim.scheduler.model.corrections import Correction, RunClass
from wavetrim.scheduler.model.device_runs import (
    ASSUMED,
    CALIBRATED,
    DeviceRuns,
    find_lower_quartile,
)

logger = logging.getLogger(__name__)

FORMAT_VERSION: Final = 2

SAVE_SECONDS: Final = 5.0
"""Least time between two writes of the file; chosen."""


class RunHistory:
    """Runs by class, and the factors that follow from them. Thread-safe.

    Args:
        path: The file, written if its folder exists; None to keep runs for this process only.
        basis: Identifies the profile of the predictions; runs of another basis are ignored.
        clock: Monotonic seconds.
        calibrated: Whether the profile was measured, so that fewer runs do not outweigh it.
    """

    def __init__(
        self,
        path: Path | None,
        basis: str,
        clock: Callable[[], float] = time.monotonic,
        *,
        calibrated: bool = False,
    ) -> None:
        self._path = path
        self._kept = path is not None and path.parent.is_dir()
        self._basis = basis
        self._clock = clock
        self._prior = CALIBRATED if calibrated else ASSUMED
        self._lock = threading.Lock()
        self._devices: dict[str, DeviceRuns] = {}
        self._found: dict[RunClass, Correction] = {}
        self._unsaved: list[tuple[RunClass, float]] = []
        self._seen_stamp: tuple[int, int] | None = None
        self._saved_seconds = self._refreshed_seconds = -math.inf
        self.refresh()

    def find(self, run_class: RunClass) -> Correction:
        """The factor of a class."""
        found = self._found.get(run_class)
        if found is None:
            found = self._found[run_class] = self._correct(run_class)
        return found

    def has_run(self, run_class: RunClass) -> bool:
        """Whether a similar product has run there."""
        with self._lock:
            device = self._devices.get(run_class.device)
            return device is not None and device.has_run(run_class)

    def note(self, run_class: RunClass, predicted_seconds: float, measured_seconds: float) -> None:
        """Record a run: its uncorrected prediction, and its measured time."""
        if predicted_seconds <= 0 or measured_seconds <= 0:
            return
        ratio = round(math.log(measured_seconds / predicted_seconds), 4)
        with self._lock:
            self._add(run_class, ratio)
            if self._path is None or not self._kept:
                return
            self._unsaved.append((run_class, ratio))
            if self._clock() < self._saved_seconds + SAVE_SECONDS:
                return
            self._saved_seconds = self._clock()
        threading.Thread(target=self.save, name="history", daemon=True).start()

    def list_factors(self) -> list[Correction]:
        """The median ratio of each device's runs."""
        with self._lock:
            found = {name: self._devices[name].summarize() for name in sorted(self._devices)}
        return [
            Correction(RunClass(device=name), math.exp(one.log_ratio), one.runs)
            for name, one in found.items()
        ]

    def list_all(self) -> list[Correction]:
        """The classes that have runs, each with the lower quartile of its own runs' ratios."""
        with self._lock:
            runs = self._list_runs()
        return [
            Correction(one, math.exp(find_lower_quartile(ratios)), len(ratios))
            for one, ratios in runs
        ]

    def refresh(self) -> None:
        """Read what other processes have written; at most once a second."""
        if self._path is None or self._clock() < self._refreshed_seconds + 1:
            return
        with self._lock:
            self._refreshed_seconds = self._clock()
            self._merge()

    def save(self) -> None:
        """Write all runs, including those that other processes have written meanwhile."""
        if self._path is None:
            return
        with self._lock:
            if not self._unsaved:
                return
            self._merge()
            self._unsaved.clear()
            document = {
                "format": FORMAT_VERSION,
                "basis": self._basis,
                "runs": [[astuple(one), ratios] for one, ratios in self._list_runs()],
            }
            part = self._path.with_suffix(f".{os.getpid()}.part")
            try:
                part.write_text(json.dumps(document) + "\n", encoding="utf-8")
                part.replace(self._path)
                self._seen_stamp = self._read_stamp()
            except OSError as error:
                logger.warning("the runs of this machine cannot be kept in %s: %s", part, error)

    def _correct(self, run_class: RunClass) -> Correction:
        with self._lock:
            device = self._devices.get(run_class.device)
            if device is None:
                return Correction(run_class)
            found = device.estimate(run_class)
        # Six digits, so that the page's model finds the same factor despite its own rounding.
        return Correction(run_class, float(f"{math.exp(found.log_ratio):.6g}"), found.runs)

    def _list_runs(self) -> list[tuple[RunClass, tuple[float, ...]]]:
        return [one for device in self._devices.values() for one in device.list_ratios()]

    def _merge(self) -> None:
        """If another process has written the file, read it and add the unsaved runs."""
        stamp = self._read_stamp()
        if stamp is None or stamp == self._seen_stamp:
            return
        self._seen_stamp = stamp
        kept = self._load()
        if kept is None:
            return
        self._devices = {}
        for run_class, ratio in [*kept, *self._unsaved]:
            self._add(run_class, ratio)

    def _load(self) -> list[tuple[RunClass, float]] | None:
        """The runs in the file; None if it has another basis or cannot be read."""
        assert self._path is not None, "there is a file"
        try:
            document: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8"))
            if (document["format"], document["basis"]) != (FORMAT_VERSION, self._basis):
                return None
            return [
                (RunClass(device, beside, bottleneck, product, float(seconds)), float(ratio))
                for (device, beside, bottleneck, product, seconds), ratios in document["runs"]
                for ratio in ratios
            ]
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("%s is passed over: %s", self._path, error)
            return None

    def _read_stamp(self) -> tuple[int, int] | None:
        assert self._path is not None, "there is a file"
        with contextlib.suppress(OSError):
            status = self._path.stat()
            return status.st_mtime_ns, status.st_ino
        return None

    def _add(self, run_class: RunClass, ratio: float) -> None:
        prior = ASSUMED if run_class.is_in_team else self._prior
        self._devices.setdefault(run_class.device, DeviceRuns(prior)).add(run_class, ratio)
        self._found = {}
