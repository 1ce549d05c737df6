"""Copies matrices in and out natively, beside a driver that does nothing before it must.

A program of its own, because the driver takes the name of CUDA's: its argument is that library.
"""

import ctypes
import itertools
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import kernels.stages
from kernels.host_copies import CopyTeam
from kernels.region import DeviceRegion
from kernels.stages import NATIVE_SLAB_BYTES, NativeStage

SHAPES = ((1, 1), (3, 5), (1, 1_100_001), (2_100_000, 1), (1031, 1033), (700, 4096), (3, 700_001))


class HostSlab:
    """What a slab is without CUDA: memory."""

    def __init__(self, size_bytes: int) -> None:
        self._memory = np.empty(size_bytes, np.uint8)
        self.pointer = self._memory.ctypes.data

    def free(self) -> None:
        """Keep nothing."""


class Stream:
    """The driver does not look at it."""

    ptr = 0


def check(stage: NativeStage, shape: tuple[int, int], pitch: int, layout: str) -> None:
    """One matrix in, compared, and out again, compared."""
    rows, columns = shape
    values = np.random.default_rng(rows).random(shape, np.float32)
    source: Any = {"rows": values, "columns": np.asfortranarray(values), "back": values[::-1]}[
        layout
    ]
    device = np.full((rows, pitch), -1, np.float32)
    stage.send(source, DeviceRegion(device.ctypes.data, pitch))
    stage.finish()
    assert np.array_equal(device[:, :columns], source), (shape, pitch, layout)
    # Padding travels where rows are padded in the slab, too; never beyond the last element.
    assert pitch - columns < 32 or (device[:, columns:] == -1).all()
    back = np.full_like(source, -2)
    stage.fetch(back, DeviceRegion(device.ctypes.data, pitch))
    assert np.array_equal(back, source), (shape, pitch, layout)


def main() -> None:
    """Run the checks."""
    ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
    kernels.stages.PinnedSlab = HostSlab  # type: ignore[misc,assignment]
    with tempfile.TemporaryDirectory() as folder:
        team = CopyTeam(2, cache_dir=Path(folder))
        stage = NativeStage(team, Stream())
        for (rows, columns), layout in itertools.product(SHAPES, ("rows", "columns", "back")):
            for pitch in (columns, columns + 7, columns + 100):
                check(stage, (rows, columns), pitch, layout)
        stage.stop(True)
        target = np.zeros((1, NATIVE_SLAB_BYTES), np.float32)
        stage.send(np.ones_like(target), DeviceRegion(target.ctypes.data, target.shape[1]))
        stage.finish()
        assert not target.any(), "a stage that is stopped begins nothing"
        stage.stop(False)
        stage.close()
        team.close()


if __name__ == "__main__":
    main()
