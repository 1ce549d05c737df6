"""Copies matrices in and out in C, with a driver that delays everything for as long as it may.

A program of its own, because the driver has the name of CUDA's. Its arguments are that library, and
the folder of compiled C.
"""

import ctypes
import itertools
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.processes import wait_until
from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.gemm.prepared import CommandKind, pack_arguments
from wavetrim.kernels.pipeline.submission import Binding
from wavetrim.kernels.transfer import native_stage
from wavetrim.kernels.transfer.host_library import open_copiers
from wavetrim.kernels.transfer.native_stage import CopyRequest, NativeStage

SHAPES = ((1, 1), (3, 5), (1, 1_100_001), (2_100_000, 1), (1031, 1033), (3, 700_001))

LAYOUTS = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "back": lambda matrix: np.ascontiguousarray(matrix[::-1])[::-1],
    "skipping": lambda matrix: np.repeat(np.repeat(matrix, 2, 0), 3, 1)[::2, ::3],
}


STREAM = SimpleNamespace(ptr=0)
"""A stream, which the driver ignores."""

SLABS = {}
"""Memory for slabs, without CUDA, by its address."""


def allocate(size_bytes):
    memory = np.empty(size_bytes, np.uint8)
    SLABS[memory.ctypes.data] = memory
    return memory.ctypes.data


def make_event(driver):
    event = ctypes.c_void_p()
    driver.cuEventCreate(ctypes.byref(event), 2)
    return SimpleNamespace(ptr=event.value)


class Caller:
    """Asks a stage for copies, with events of the driver."""

    def __init__(self, stage, driver):
        self.stage = stage
        self.driver = driver

    def send(self, matrix, place, *, inwards=True):
        events = make_event(self.driver), make_event(self.driver)
        return self.stage.send(CopyRequest(matrix, place, inwards, None, *events))

    def copy(self, matrix, place, *, inwards=True):
        """Copy, and wait until the copy is over."""
        walk = self.send(matrix, place, inwards=inwards)
        walk.result()
        assert walk.done()
        self.stage.finish()

    def send_out(self, *sizes):
        """Ask for copies of square matrices; each on the device, its target and its copy."""
        sent = []
        for value, size in enumerate(sizes):
            device = np.full((size, size), value, np.float32)
            matrix = np.full_like(device, -1)
            sent.append((device, matrix, self.send(matrix, lay_out(device), inwards=False)))
        return sent


def lay_out(device):
    """The place of all of a matrix."""
    return Layout(device.ctypes.data, *device.shape, device.shape[1], device.itemsize)


def check(caller, shape, pitch, layout, dtype="float32"):
    """One matrix in, compared, and out again, compared, with padding on the device and without."""
    rows, columns = shape
    values = np.random.default_rng(rows).integers(0, 250, shape).astype(dtype)
    source = LAYOUTS[layout](values)
    for padding in {0, pitch - columns}:
        device = np.full((rows, pitch), 251, dtype)
        place = Layout(device.ctypes.data, rows, columns, pitch, values.itemsize, padding)
        caller.copy(source, place)
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
        caller.copy(source[:, start:stop], part)
        caller.copy(back[:, start:stop], part, inwards=False)
    assert np.array_equal(device[:, :columns], source), widths
    assert np.array_equal(back, source), widths


def check_failure(caller):
    """After a refusal by the driver every later copy fails, until the stage is abandoned."""
    matrix = np.ones((3, 5), np.float32)
    caller.driver.refuse(1)
    for walk in [caller.send(matrix, lay_out(matrix)) for _ in range(3)]:
        with pytest.raises(Refusal, match="1"):
            walk.result()
    caller.driver.refuse(0)
    caller.stage.abandon()
    caller.copy(matrix, lay_out(matrix))


def check_lost_context(caller):
    """Where everything fails, nothing waits forever, not even for copies under way."""
    stage, driver = caller.stage, caller.driver
    matrix = np.ones((1500, 1500), np.float32)
    device = np.zeros_like(matrix)
    for inwards in (True, False):
        underway = caller.send(matrix, lay_out(device))
        underway.result()
        driver.fail(700)
        failed = caller.send(matrix, lay_out(device), inwards=inwards)
        with pytest.raises(Refusal, match="700"):
            failed.result()
        assert failed.done()
        with pytest.raises(Refusal, match="700"):
            stage.finish()
        stage.abandon()
        driver.fail(0)
        stage.finish()


def check_dropping(caller):
    """Abandoned copies are done, begun or not; then the stage works again."""
    values = np.random.default_rng(1).random((3000, 1500), np.float32)
    device = np.zeros_like(values)
    walks = [caller.send(values, lay_out(device)) for _ in range(50)]
    caller.stage.abandon()
    assert all(walk.done() for walk in walks)
    caller.copy(values, lay_out(device))
    assert np.array_equal(device, values)


def check_queue(caller):
    """Transfers run ahead into the next matrices, and each matrix gets its own elements."""
    driver = caller.driver
    for device, matrix, walk in caller.send_out(*(3 * [3, 1500, 700, 2500, 1, 1024, 1025, 2000])):
        walk.result()
        assert np.array_equal(device, matrix)
    caller.stage.finish()
    driver.hold(1)
    before = driver.count_copies()
    eight_pieces, one_piece = caller.send_out(700, 5)
    wait_until(lambda: driver.count_copies() == before + 9)
    driver.hold(0)
    eight_pieces[2].result()
    one_piece[2].result()
    caller.stage.finish()


def check_queue_that_ends(caller):
    """After failed or dropped copies, slabs with transfers that ran ahead are reused."""
    stage, driver = caller.stage, caller.driver
    for _ in range(5):
        driver.hold(1)
        sent = caller.send_out(1400, 5, 2500, 5)
        driver.fail(700)
        driver.hold(0)
        with pytest.raises(Refusal, match="700"):
            sent[-1][2].result()
        stage.abandon()
        driver.fail(0)
        driver.hold(1)
        dropped = caller.send_out(5, 1400, 5, 2500)  # kept while copies may be made
        ending = threading.Thread(target=stage.abandon)
        ending.start()
        driver.hold(0)
        ending.join()
        for device, matrix, walk in caller.send_out(1400, 5, 2500, 5):
            walk.result()
            assert np.array_equal(device, matrix)
        stage.finish()
        assert all(walk.done() for _, _, walk in dropped)


def check_closed(caller):
    """A closed stage and its copies refuse calls; closing again does nothing."""
    matrix = np.ones((3, 5), np.float32)
    walk = caller.send(matrix, lay_out(np.zeros_like(matrix)))
    caller.stage.close()
    caller.stage.close()
    for call in (caller.stage.finish, caller.stage.abandon, walk.done, walk.result):
        with pytest.raises(RuntimeError, match="closed"):
            call()


def check_commands(pool, driver, columns):
    """Commands in C: copies with and without padding, a launch, clearing, and a refusal."""
    source = np.random.default_rng(1).random((7, columns), np.float32)
    device = np.full((2, 7, 12), -1, np.float32)
    result = np.full((7, 20), -2, np.float32)
    passed = device[1].ctypes.data, device[0].ctypes.data, device[0].nbytes
    arguments = pack_arguments(tuple(map(ctypes.c_uint64, passed)))
    events = (ctypes.c_void_p * 2)(make_event(driver).ptr, make_event(driver).ptr)
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
    words = np.array([(*one, *(0,) * (9 - len(one))) for one in commands], np.int64)

    def run(*how):
        address = ctypes.addressof(binding)
        return pool.library.run_commands(words.ctypes.data, len(words), address, *how)

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
        patch.setattr(native_stage, "_allocate_slabs", lambda _: refuse(2))
        with pytest.raises(Refusal, match="2"):
            NativeStage(pool, STREAM, STREAM)


class Refusal(Exception):
    """A status of the driver."""


def refuse(status):
    """Raise in place of CuPy's exception."""
    raise Refusal(status)


def main():
    driver = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
    native_stage._allocate_slabs = allocate
    native_stage._free_slabs = SLABS.pop
    native_stage._raise = refuse  # type: ignore[assignment]
    pool = open_copiers(2, cache_dir=Path(sys.argv[2]))
    for columns in (9, 12):  # on the device, rows are 12 elements apart
        check_commands(pool, driver, columns)
    caller = Caller(NativeStage(pool, STREAM, STREAM), driver)
    for (rows, columns), layout in itertools.product(SHAPES, LAYOUTS):
        gaps = (0, 7, 100 if rows < 10**6 else 8)  # a million rows with wide gaps are a GB
        for gap in gaps:
            check(caller, (rows, columns), columns + gap, layout)
    for layout, dtype in itertools.product(LAYOUTS, ("uint8", "float16", "float64", "complex128")):
        check(caller, (257, 1031), 1038, layout, dtype)
    for threads in (0, 1, 2):
        pool.limit(threads)
        pool.wake(threads)
        check(caller, (1031, 1033), 1033, "columns")
    for widths in ((24, 23), (1, 1, 1), (5, 40, 2)):
        check_parts(caller, widths)
    check_failure(caller)
    check_lost_context(caller)
    check_dropping(caller)
    check_queue(caller)
    check_queue_that_ends(caller)
    check_closed(caller)
    check_no_memory(pool)
    pool.close()
    with pytest.raises(RuntimeError, match="ended"):
        NativeStage(pool, STREAM, STREAM)
    assert not SLABS


if __name__ == "__main__":
    main()
