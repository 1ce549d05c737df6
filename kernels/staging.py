"""Copies between the caller's memory and the device, and who does them.

Page-locked memory of the caller's is read and written by the device itself, in one transfer. Other
memory goes through a stage (stages.py), so that both directions go on while the calling thread
launches kernels.
"""

from typing import Any

from kernels.copies import DirectCopy, PendingCopy, StagedCopy
from kernels.host_copies import CopyTeam
from kernels.memory import Matrix
from kernels.native_stage import open_stage
from kernels.pinned import is_pinned
from kernels.region import DeviceRegion
from kernels.stages import Errand, Stage
from kernels.transfers import Transfers


class Staging:
    """One direction of the pipeline: a stream, and a stage once there is something to stage.

    Args:
        device_index: CUDA's number of the device, which must be the calling thread's.
        team: Who copies; both directions share it.

    Attributes:
        stream: CuPy's stream of the transfers.
    """

    def __init__(self, device_index: int, team: CopyTeam) -> None:
        import cupy

        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._device_index = device_index
        self._team = team
        self._stage: Stage | None = None
        self._transfers = Transfers(self.stream)
        self._alone = False
        self._helpers = team.threads

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
            return DirectCopy(end, outwards=False, awake=self._alone)
        return self._walk(source, target, after, inwards=True)

    def copy_out(self, source: DeviceRegion, target: Matrix, *, after: Any) -> PendingCopy:
        """Copy a matrix from the device once the CUDA event `after` has passed there."""
        if is_pinned(target):
            end = self._transfers.copy_out(source, target, after)
            return DirectCopy(end, outwards=True, awake=self._alone)
        return self._walk(target, source, after, inwards=False)

    def finish(self) -> float:
        """Wait for all copies, and return the seconds that their transfers took together.

        Raises what a copy raised that nobody has asked for.
        """
        if self._stage is not None:
            self._stage.finish()
        return self._transfers.finish()

    def abandon(self) -> None:
        """Drop the copies that have not begun and wait for the one that has."""
        if self._stage is not None:
            self._stage.abandon()
        self._transfers.forget()

    def close(self) -> None:
        """End the stage's thread and free its slabs."""
        if self._stage is not None:
            self._stage.close()
            self._stage = None

    def _walk(
        self, matrix: Matrix, region: DeviceRegion, after: Any, *, inwards: bool
    ) -> StagedCopy:
        if self._stage is None:  # not before, since slabs take time to lock
            self._stage = open_stage(self._device_index, self._team, self.stream)
            self._stage.limit(self._helpers)
        start, end = self._transfers.make_timer()
        errand = Errand(matrix, region, inwards, after, start, end, self._alone)
        return StagedCopy(self._stage.send(errand), end)
