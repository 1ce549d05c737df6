"""The runs of a machine: ratios of measured to predicted seconds, stored next to its profile.

A history belongs to one profile, and begins empty with another. Its file (`runs_file`) has the
profile's name, for GPU, driver, libraries and threads. Several processes may share it: each adds
its own runs.
"""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from wavetrim.scheduler.model.corrections import Correction, RunClass
from wavetrim.scheduler.model.device_runs import (
    ASSUMED,
    CALIBRATED,
    DeviceRuns,
    find_lower_quartile,
)
from wavetrim.scheduler.profile.runs_file import RunsFile, is_log_ratio

logger = logging.getLogger(__name__)

SAVE_SECONDS: Final = 5.0
"""Least time between two writes of the file; chosen."""

MOST_UNSAVED: Final = 4096
"""Most runs that wait to be written, where writing fails; chosen."""


class RunHistory:
    """Runs by class, and the factors that follow from them. Thread-safe.

    A product only leaves its run in a list. Whoever asks for a factor sorts these runs in, and
    reads what other processes have written.

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
        self._file = RunsFile(path, basis) if path is not None else None
        self._clock = clock
        self._prior = CALIBRATED if calibrated else ASSUMED
        self._lock, self._saving = threading.Lock(), threading.Lock()
        self._devices: dict[str, DeviceRuns] = {}
        self._found: dict[RunClass, Correction] = {}
        self._noted: deque[tuple[RunClass, float]] = deque(maxlen=MOST_UNSAVED)
        self._unsaved: deque[tuple[RunClass, float]] = deque(maxlen=MOST_UNSAVED)
        self._saved_seconds = self._refreshed_seconds = -math.inf
        self.refresh()

    def find(self, run_class: RunClass) -> Correction:
        """The factor of a class."""
        self.refresh()
        found = self._found.get(run_class)
        if found is None:
            found = self._found[run_class] = self._correct(run_class)
        return found

    def note(self, run_class: RunClass, predicted_seconds: float, measured_seconds: float) -> None:
        """Record a run: its uncorrected prediction, and its measured time."""
        if predicted_seconds <= 0 or measured_seconds <= 0:
            return
        ratio = round(math.log(measured_seconds / predicted_seconds), 4)
        if not is_log_ratio(ratio):
            return
        self._noted.append((run_class, ratio))
        if self._file is None or not self._file.has_folder:
            return
        now = self._clock()
        if now < self._saved_seconds + SAVE_SECONDS:
            return
        self._saved_seconds = now
        with suppress(RuntimeError):  # no thread is to be had: a later run starts one
            threading.Thread(target=self.save, name="history", daemon=True).start()

    def list_factors(self) -> list[Correction]:
        """The median ratio of each device's runs."""
        self.refresh()
        with self._lock:
            found = {name: self._devices[name].summarize() for name in sorted(self._devices)}
        return [
            Correction(RunClass(device=name), math.exp(one.log_ratio), one.runs)
            for name, one in found.items()
        ]

    def list_all(self) -> list[Correction]:
        """The classes that have runs, each with the lower quartile of its own runs' ratios."""
        self.refresh()
        with self._lock:
            runs = self._list_runs()
        return [
            Correction(one, math.exp(find_lower_quartile(ratios)), len(ratios))
            for one, ratios in runs
        ]

    def refresh(self) -> None:
        """Sort in what was noted, and at most once a second what other processes have written."""
        is_due = self._file is not None and self._clock() >= self._refreshed_seconds + 1
        if not is_due and not self._noted:
            return
        with self._lock:
            self._sort_in()
            if self._file is not None and is_due:
                self._refreshed_seconds = self._clock()
                self._merge(self._file)

    def save(self) -> None:
        """Write all runs, including those that other processes have written meanwhile."""
        if self._file is None:
            return
        with self._saving:
            self.refresh()
            if not self._unsaved:
                return
            try:
                with self._file.lock():
                    self._save(self._file)
            except OSError as error:
                logger.warning("the runs of this machine cannot be kept: %s", error)

    def _save(self, file: RunsFile) -> None:
        """Write all runs; nobody who asks for a factor waits for the disk."""
        with self._lock:
            self._merge(file)
            runs, unsaved = self._list_runs(), self._unsaved
            self._unsaved = deque(maxlen=MOST_UNSAVED)
        try:
            file.write(runs)
        except OSError:
            with self._lock:
                self._unsaved.extendleft(reversed(unsaved))
            raise

    def _correct(self, run_class: RunClass) -> Correction:
        with self._lock:
            device = self._devices.get(run_class.device)
            if device is None:
                return Correction(run_class)
            found = device.estimate(run_class)
        return Correction(run_class, math.exp(found.log_ratio), found.runs)

    def _list_runs(self) -> list[tuple[RunClass, tuple[float, ...]]]:
        return [one for device in self._devices.values() for one in device.list_ratios()]

    def _merge(self, file: RunsFile) -> None:
        """If another process has written the file, read it and add the unsaved runs."""
        kept = file.read_changes()
        if kept is None:
            return
        self._devices = {}
        for run_class, ratio in [*kept, *self._unsaved]:
            self._add(run_class, ratio)

    def _sort_in(self) -> None:
        """Take the noted runs into account."""
        while self._noted:
            run_class, ratio = self._noted.popleft()
            self._add(run_class, ratio)
            if self._file is not None and self._file.has_folder:
                self._unsaved.append((run_class, ratio))

    def _add(self, run_class: RunClass, ratio: float) -> None:
        prior = ASSUMED if run_class.is_in_team else self._prior
        self._devices.setdefault(run_class.device, DeviceRuns(prior)).add(run_class, ratio)
        self._found = {}
