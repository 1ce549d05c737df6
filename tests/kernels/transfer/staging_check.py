"""Copies matrices in and out in C, with a driver that delays everything for as long as it may.

A program of its own, because the driver has the name of CUDA's. Its arguments are that library, and
the folder of compiled C.
"""

import ctypes
import itertools
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.processes import wait_until
from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.gemm.prepared import CommandKind, pack_arguments
from wavetrim.kernels.pipeline.submission import Binding
from wavetrim.kernels.transfer import stage as stages
from wavetrim.kernels.transfer.host_library import open_copiers
from wavetrim.kernels.transfer.stage import Stage

SHAPES = ((1, 1), (3, 5), (1, 1_100_001), (2_100_000, 1), (1031, 1033), (3, 700_001))

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "back": lambda matrix: np.ascontiguousarray(matrix[::-1])[::-1],
    "skipping": lambda matrix: np.repeat(np.repeat(matrix, 2, 0), 3, 1)[::2, ::3],
}


class HostMemory:
    """Memory for slabs without CUDA."""

    def __init__(self):
        self.allocated: dict[int, Any] = {}

    def allocate(self, size_bytes):
        """Address of new memory."""
        memory = np.empty(size_bytes, np.uint8)
        self.allocated[memory.ctypes.data] = memory
        return memory.ctypes.data

    def free(self, address):
        """Free it."""
        del self.allocated[address]


class Stream:
    """A stream, which the driver ignores."""

    ptr = 0


class Event:
    """An event of the driver."""

    def __init__(self, driver):
        self._memory = ctypes.c_void_p()
        driver.cuEventCreate(ctypes.byref(self._memory), 2)
        self.ptr = self._memory.value


class Copy:
    """A copy that a stage makes, asked for by commands.

    Args:
        stage: The stage.
        driver: Makes events.
        matrix: The matrix in host memory.
        layout: How it lies on the device.
        inwards: Whether it is copied to the device.
    """

    def __init__(self, stage, driver, matrix, layout, *, inwards):
        self._library, self._kept = stage._library, matrix
        self._events = (ctypes.c_void_p * 2)(Event(driver).ptr, Event(driver).ptr)
        self._requests = np.zeros(2, np.int64)
        binding = self._binding = Binding(
            events=ctypes.addressof(self._events),
            stage=stage.address,
            requests=self._requests.ctypes.data,
        )
        context = ctypes.c_void_p()
        driver.cuCtxGetCurrent(ctypes.byref(context))
        binding.context = context.value
        binding.hosts[:] = [0, matrix.ctypes.data, 0]
        binding.pitches[:], binding.strides[:] = ([0, one, 0] for one in matrix.strides)
        kind, item = (CommandKind.STAGE_IN if inwards else CommandKind.STAGE_OUT), layout.item_bytes
        on_device = layout.pointer, layout.leading_dimension * item, layout.padding * item
        queue = 0 if inwards else 2
        commands = (
            (CommandKind.RECORD, queue, 0),
            (kind, queue, 1, 0, 0, *matrix.shape, *on_device, item),
            (CommandKind.RECORD, queue, 1),
        )
        self._words = np.array([(*one, *(0,) * (11 - len(one))) for one in commands], np.int64)
        assert self._run(len(commands), -1) == 0

    def await_end(self):
        """Wait for it; raise what stopped it."""
        status = self._run(0, 1)
        if status:
            raise Refusal(status)

    def _run(self, count, event):
        address = ctypes.addressof(self._binding)
        words = self._words.ctypes.data
        status: int = self._library.run_commands(words, count, address, event, 0)
        return status


class Caller:
    """Asks a stage for copies, and waits for them.

    Args:
        stage: The stage.
        driver: Makes events.
    """

    def __init__(self, stage, driver):
        self._stage = stage
        self._driver = driver

    def copy(self, matrix, place, *, inwards):
        """Copy, and wait until the copy is over."""
        Copy(self._stage, self._driver, matrix, place, inwards=inwards).await_end()
        self._stage.finish()


def check(caller, shape, pitch, layout, dtype="float32"):
    """One matrix in, compared, and out again, compared, with padding on the device and without."""
    rows, columns = shape
    values = np.random.default_rng(rows).integers(0, 250, shape).astype(dtype)
    source = LAYOUTS[layout](values)
    for padding in {0, pitch - columns}:
        device = np.full((rows, pitch), 251, dtype)
        place = Layout(device.ctypes.data, rows, columns, pitch, values.itemsize, padding)
        caller.copy(source, place, inwards=True)
        assert np.array_equal(device[:, :columns], source), (shape, pitch, layout)
        # What holds something else is not written.
        assert padding or (device[:, columns:] == 251).all(), (shape, pitch, layout)
        back = LAYOUTS[layout](np.full_like(values, 252))
        caller.copy(back, place, inwards=False)
        assert np.array_equal(back, source), (shape, pitch, layout)


def check_parts(caller, widths):
    """Parts of a matrix, one beside the other: copies of each leave the others as they are."""
    rows, columns = 1216, sum(widths)
    source = np.random.default_rng(3).random((rows, columns), np.float32)
    pitch = columns + 1
    device = np.full((rows, pitch), -1, np.float32)
    place = Layout(device.ctypes.data, rows, columns, pitch, 4, padding=1)
    starts = list(itertools.accumulate(widths, initial=0))
    back = np.zeros_like(source)
    for start, stop in itertools.pairwise(starts):
        part = place.cut(range(rows), range(start, stop))
        caller.copy(source[:, start:stop], part, inwards=True)
        caller.copy(back[:, start:stop], part, inwards=False)
    assert np.array_equal(device[:, :columns], source), widths
    assert np.array_equal(back, source), widths


def check_failure(stage, driver):
    """After a refusal by the driver every later copy fails, until the stage is abandoned."""
    matrix = np.ones((3, 5), np.float32)
    place = Layout(matrix.ctypes.data, 3, 5, 5, 4)
    driver.refuse(1)
    refused = [Copy(stage, driver, matrix, place, inwards=True) for _ in range(3)]
    for copy in refused:
        with pytest.raises(Refusal, match="1"):
            copy.await_end()
    driver.refuse(0)
    stage.abandon()
    Caller(stage, driver).copy(matrix, place, inwards=True)


def check_lost_context(stage, driver):
    """Where everything fails, nothing waits forever, not even for copies under way."""
    matrix = np.ones((1500, 1500), np.float32)
    device = np.zeros_like(matrix)
    place = Layout(device.ctypes.data, 1500, 1500, 1500, 4)
    for inwards in (True, False):
        underway = Copy(stage, driver, matrix, place, inwards=True)
        underway.await_end()
        driver.fail(700)
        failed = Copy(stage, driver, matrix, place, inwards=inwards)
        with pytest.raises(Refusal, match="700"):
            failed.await_end()
        with pytest.raises(Refusal, match="700"):
            stage.finish()
        stage.abandon()
        driver.fail(0)
        stage.finish()


def check_dropping(stage, driver):
    """Abandoned copies are done, begun or not; then the stage works again."""
    values = np.random.default_rng(1).random((3000, 1500), np.float32)
    device = np.zeros_like(values)
    place = Layout(device.ctypes.data, 3000, 1500, 1500, 4)
    copies = [Copy(stage, driver, values, place, inwards=True) for _ in range(50)]
    stage.abandon()
    for copy in copies:
        copy.await_end()
    Caller(stage, driver).copy(values, place, inwards=True)
    assert np.array_equal(device, values)


def send_out(stage, driver, sizes):
    """Request copies of square matrices; returns each on the device, its target and its copy."""
    sent = []
    for value, size in enumerate(sizes):
        device = np.full((size, size), value, np.float32)
        matrix = np.full_like(device, -1)
        place = Layout(device.ctypes.data, size, size, size, 4)
        sent.append((device, matrix, Copy(stage, driver, matrix, place, inwards=False)))
    return sent


def check_queue(stage, driver):
    """Transfers run ahead into the next matrices, and each matrix gets its own elements."""
    sent = send_out(stage, driver, [3, 1500, 700, 2500, 1, 1024, 1025, 2000] * 3)
    for device, matrix, copy in sent:
        copy.await_end()
        assert np.array_equal(device, matrix)
    stage.finish()
    driver.hold(1)
    before = driver.count_copies()
    eight_pieces, one_piece = send_out(stage, driver, [700, 5])
    wait_until(lambda: driver.count_copies() == before + 9)
    driver.hold(0)
    eight_pieces[2].await_end()
    one_piece[2].await_end()
    stage.finish()


def check_queue_that_ends(stage, driver):
    """After failed or dropped copies, slabs with transfers that ran ahead are reused."""
    for _ in range(5):
        driver.hold(1)
        sent = send_out(stage, driver, [1400, 5, 2500, 5])
        driver.fail(700)
        driver.hold(0)
        with pytest.raises(Refusal, match="700"):
            sent[-1][2].await_end()
        stage.abandon()
        driver.fail(0)
        driver.hold(1)
        dropped = send_out(stage, driver, [5, 1400, 5, 2500])  # kept while copies may be made
        ending = threading.Thread(target=stage.abandon)
        ending.start()
        driver.hold(0)
        ending.join()
        for device, matrix, copy in send_out(stage, driver, [1400, 5, 2500, 5]):
            copy.await_end()
            assert np.array_equal(device, matrix)
        stage.finish()
        for _, _, copy in dropped:
            copy.await_end()


def check_commands(pool, driver, columns):
    """Commands in C: copies with and without padding, a launch, clearing, and a refusal."""
    source = np.random.default_rng(1).random((7, columns), np.float32)
    device = np.full((2, 7, 12), -1, np.float32)
    result = np.full((7, 20), -2, np.float32)
    arguments = pack_arguments(
        (
            ctypes.c_uint64(device[1].ctypes.data),
            ctypes.c_uint64(device[0].ctypes.data),
            ctypes.c_uint64(device[0].nbytes),
        )
    )
    events = (ctypes.c_void_p * 2)(Event(driver).ptr, Event(driver).ptr)
    binding = Binding(events=ctypes.addressof(events))
    context = ctypes.c_void_p()
    driver.cuCtxGetCurrent(ctypes.byref(context))
    binding.context = context.value
    binding.hosts[:] = [source.ctypes.data, 0, result.ctypes.data]
    binding.pitches[:] = [source.strides[0], 0, result.strides[0]]
    kind, row_bytes = CommandKind, 5 * 4
    first, second = (matrix.ctypes.data for matrix in device)
    commands = [
        (kind.RECORD, 0, 0),
        (kind.COPY_IN, 0, 0, 1, 2 * 4, 6, row_bytes, first, 12 * 4),
        (kind.LAUNCH, 1, 1, 3, 2, 1, 1, 0, arguments.address),
        (kind.COPY_OUT, 2, 2, 0, 4, 6, row_bytes, second, 12 * 4),
        (kind.CLEAR, 1, second, device[1].nbytes),
        (kind.RECORD, 0, 1),
    ]
    words = np.array([(*one, *(0,) * (11 - len(one))) for one in commands], np.int64)

    def run(*how):
        address = ctypes.addressof(binding)
        status: int = pool.library.run_commands(words.ctypes.data, len(words), address, *how)
        return status

    assert run(1, 1) == 0
    assert np.array_equal(device[0, :6, :5], source[1:, 2:7])
    assert (device[0, :6, 5:] == -1).all()
    assert not device[1].any()
    assert np.array_equal(result[:6, 1:6], source[1:, 2:7])
    assert (result[:, 6:] == -2).all()
    assert (result[6] == -2).all()
    seconds, pairs = ctypes.c_double(), np.array([(0, 1), (0, 1)], np.int32)
    pool.library.read_spans(ctypes.addressof(binding), pairs.ctypes.data, 2, ctypes.byref(seconds))
    assert seconds.value == 2 * 4e-3  # the driver calls a copy, launch or clearing a millisecond
    driver.refuse(2)
    assert run(-1, 0) == 2
    driver.refuse(0)


def check_no_memory(pool):
    """Without memory for slabs there is no stage."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "_allocate_slabs", lambda _: refuse(2))
        with pytest.raises(Refusal, match="2"):
            Stage(pool, Stream(), Stream())


class Refusal(Exception):
    """A status of the driver."""


def refuse(status):
    """Raise in place of CuPy's exception."""
    raise Refusal(status)


def main():
    """Run the checks."""
    driver = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
    memory = HostMemory()
    stages._allocate_slabs = memory.allocate
    stages._free_slabs = memory.free
    stages._raise = refuse  # type: ignore[assignment]
    pool = open_copiers(2, cache_dir=Path(sys.argv[2]))
    assert pool is not None
    for columns in (9, 12):  # on the device, rows are 12 elements apart
        check_commands(pool, driver, columns)
    stage = Stage(pool, Stream(), Stream())
    for (rows, columns), layout in itertools.product(SHAPES, LAYOUTS):
        gaps = (0, 7, 100 if rows < 10**6 else 8)  # a million rows with wide gaps are a GB
        for gap in gaps:
            check(Caller(stage, driver), (rows, columns), columns + gap, layout)
    for layout, dtype in itertools.product(LAYOUTS, ("uint8", "float16", "float64", "complex128")):
        check(Caller(stage, driver), (257, 1031), 1038, layout, dtype)
    for threads in (0, 1, 2):
        pool.limit(threads)
        pool.wake(threads)
        check(Caller(stage, driver), (1031, 1033), 1033, "columns")
    for widths in ((24, 23), (1, 1, 1), (5, 40, 2)):
        check_parts(Caller(stage, driver), widths)
    check_failure(stage, driver)
    check_lost_context(stage, driver)
    check_dropping(stage, driver)
    check_queue(stage, driver)
    check_queue_that_ends(stage, driver)
    stage.close()
    stage.close()  # does nothing
    check_no_memory(pool)
    pool.close()
    with pytest.raises(RuntimeError, match="ended"):
        Stage(pool, Stream(), Stream())
    assert not memory.allocated


if __name__ == "__main__":
    main()
