"""Copies between pageable memory and the device keep every element, in C and by CUDA."""

import os
import shutil
import subprocess
import sys
from ctypes import memmove
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.environment import ROOT
from tests.native.c_library import build_library
from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.transfer import stages
from wavetrim.kernels.transfer.stages import CopyRequest, PageableStage

FOLDER = Path(__file__).parent


def test_the_staging_check_passes(tmp_path: Path, kernel_cache: Path) -> None:
    source = shutil.copy(FOLDER / "lazy_driver.c", tmp_path / "libcuda.c")
    library = build_library(Path(source))
    driver = library.rename(tmp_path / "libcuda.so.1")
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.transfer.staging_check", driver, kernel_cache],
        cwd=ROOT,
        env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


class HostTransfers:
    """Copies rows in host memory, in place of CUDA's transfers."""

    def __init__(self, stream: "Stream") -> None:
        self.stream = stream
        self.count = 0

    def copy_in(self, source: int, pitch_bytes: int, target: Layout) -> None:
        device_bytes = target.leading_dimension * target.item_bytes
        self._copy(target.pointer, device_bytes, source, pitch_bytes, target)

    def copy_out(self, source: Layout, target: int, pitch_bytes: int) -> None:
        device_bytes = source.leading_dimension * source.item_bytes
        self._copy(target, pitch_bytes, source.pointer, device_bytes, source)

    def _copy(self, target: int, down: int, source: int, across: int, size: Layout) -> None:
        self.count += 1
        for row in range(size.rows):
            memmove(target + row * down, source + row * across, size.columns * size.item_bytes)


class Stream:
    """Notes its calls; its work is done at once."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    def wait_event(self, event: "Event") -> None:
        self.notes.append(("wait", event))

    def synchronize(self) -> None:
        self.notes.append("synchronize")


class Event:
    def record(self, stream: Stream) -> None:
        stream.notes.append(("record", self))


@pytest.mark.parametrize("layout", ["rows", "padded", "columns", "skipping", "backwards"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (70, 90)])
def test_cuda_copies_pageable_memory_without_a_library(
    monkeypatch: pytest.MonkeyPatch, layout: str, shape: tuple[int, int]
) -> None:
    monkeypatch.setattr(stages, "_PACKED_BYTES", 4096)  # several pieces
    values = np.random.default_rng(1).random((2 * shape[0], 3 * shape[1]), np.float32)
    host = {
        "rows": values[: shape[0], : shape[1]].copy(),
        "padded": values[: shape[0], : shape[1]],
        "columns": np.asfortranarray(values[: shape[0], : shape[1]]),
        "skipping": values[::2, ::3],
        "backwards": values[::-2, ::-3],
    }[layout]
    before = host.copy()
    device = np.zeros((shape[0], shape[1] + 3), np.float32)
    place = Layout(device.ctypes.data, *shape, shape[1] + 3, 4)
    stream = Stream()
    transfers = HostTransfers(stream)
    stage = PageableStage(transfers, transfers)  # type: ignore[arg-type]
    after, start, end = Event(), Event(), Event()
    walk = stage.send(CopyRequest(host, place, True, after, start, end))
    assert walk.done()
    assert stream.notes[:2] == [("wait", after), ("record", start)]
    assert stream.notes[-1] == ("record", end)
    assert np.array_equal(device[:, : shape[1]], before)
    device *= 2
    host[...] = 0
    others = values.copy()
    stage.send(CopyRequest(host, place, False, None, start, end)).result()
    assert np.array_equal(host, 2 * before)
    host[...] = 0
    assert np.array_equal(values, others)
