"""Copies between the caller's memory and the device: who does them, and in which thread.

Page-locked memory of the caller's is read and written by the device itself, in one transfer. Other
memory goes through a stage (stages.py), in a thread of its own for each direction, so that both
go on while the calling thread launches kernels.
"""

from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from kernels.copies import PendingCopy
from kernels.host_copies import CopyTeam
from kernels.memory import Matrix
from kernels.pinned import is_pinned
from kernels.region import DeviceRegion
from kernels.stages import Stage, open_stage
from kernels.transfers import Transfers


class Staging:
    """One direction of the pipeline: a stream, a stage and its thread.

    Args:
        device_index: CUDA's number of the device.
        team: Who copies; both directions share it.
        name: Name of the thread.

    Attributes:
        stream: CuPy's stream of the transfers.
    """

    def __init__(self, device_index: int, *, team: CopyTeam, name: str) -> None:
        import cupy

        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._alone = False
        self._helpers = team.threads
        self._team = team
        self._stage: Stage | None = None
        self._transfers = Transfers(self.stream)
        self._thread = ThreadPoolExecutor(
            1, name, initializer=lambda: cupy.cuda.Device(device_index).use()
        )
        self._copies: list[Future[list[Any]]] = []

    def prepare(self, *, alone: bool, helpers: int) -> None:
        """Say how the copies of the next product are done.

        Args:
            alone: Whether the calling thread does them itself, at once, and stays awake. Waking
                another takes longer than copying a few megabytes.
            helpers: Threads of the team that share in each.
        """
        self._alone = alone
        self._helpers = helpers
        if self._stage is not None:
            self._stage.limit(helpers)

    def copy_in(self, source: Matrix, target: DeviceRegion, *, after: Any = None) -> PendingCopy:
        """Copy a matrix to the device, not before the CUDA event `after` has passed there."""
        if is_pinned(source):
            end = self._transfers.copy_in(source, target, after)
            return PendingCopy.enqueued([end])
        return self._start(self._send, source, target, after)

    def copy_out(self, source: DeviceRegion, target: Matrix, *, after: Any) -> PendingCopy:
        """Copy a matrix from the device once the CUDA event `after` has passed there."""
        if is_pinned(target):
            end = self._transfers.copy_out(source, target, after)
            return PendingCopy.enqueued([end], awaited=True, awake=self._alone)
        return self._start(self._fetch, target, source, after)

    def finish(self) -> float:
        """Wait for all copies, and return the seconds that their transfers took together.

        Raises what a copy raised that nobody has asked for.
        """
        for copy in self._copies:
            copy.result()
        self._copies = []
        if self._stage is not None:
            self._stage.finish()
        return self._transfers.finish()

    def abandon(self) -> None:
        """Drop the copies that have not begun and wait for the thread to end the other."""
        if self._stage is not None:
            self._stage.stop(True)
        wait(self._copies)
        self._copies = []
        self._transfers.forget()
        if self._stage is not None:
            self._stage.stop(False)

    def close(self) -> None:
        """End the thread and free the slabs."""
        self._thread.shutdown(wait=True)
        if self._stage is not None:
            self._stage.close()
            self._stage = None

    def _start(self, walk: Any, matrix: Matrix, region: DeviceRegion, after: Any) -> PendingCopy:
        if self._stage is None:  # not before there is something to stage: slabs take time to lock
            self._stage = open_stage(self._team, self.stream)
            self._stage.limit(self._helpers)
        if self._alone:
            return PendingCopy.enqueued(walk(self._stage, matrix, region, after))
        events: Future[list[Any]] = self._thread.submit(walk, self._stage, matrix, region, after)
        self._copies.append(events)
        return PendingCopy(events)

    def _send(self, stage: Stage, source: Matrix, target: DeviceRegion, after: Any) -> list[Any]:
        """Copy in; returns the event behind the last transfer."""
        with self._transfers.timed(after) as end:
            stage.send(source, target)
        return [end]

    def _fetch(self, stage: Stage, target: Matrix, source: DeviceRegion, after: Any) -> list[Any]:
        """Copy out; it has arrived when this returns."""
        with self._transfers.timed(after):
            stage.fetch(target, source)
        return []
