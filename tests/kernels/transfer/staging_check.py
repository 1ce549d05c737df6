"""Copies matrices in and out in C, with a driver that delays everything for as long as it may."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.kernels.transfer.driver import (
    Driver,
    Refusal,
    Stream,
    pack_commands,
    refuse,
    run_commands,
)
from tests.processes import wait_until
from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.gemm.prepared import CommandKind
from wavetrim.kernels.transfer import stage as stages
from wavetrim.kernels.transfer.stage import Stage

SHAPES = ((1, 1), (3, 5), (1, 300_001), (300_001, 1), (1031, 1033), (3, 100_001))

LAYOUTS = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "back": lambda matrix: np.ascontiguousarray(matrix[::-1])[::-1],
    "skipping": lambda matrix: np.repeat(np.repeat(matrix, 2, 0), 3, 1)[::2, ::3],
}


class Copying:
    """A stage of copies, asked for by commands."""

    def __init__(self, driver, pool):
        self._driver, self._pool = driver, pool
        self.stage = Stage(pool, Stream(0), Stream(0))

    def begin(self, matrix, place, *, inwards):
        """Ask for a copy between a matrix and its place on the device; returns what awaits it."""
        events, requests = self._driver.make_events(2), np.zeros(2, np.int64)
        binding = self._driver.bind(events, stage=self.stage.address, requests=requests.ctypes.data)
        binding.hosts[:] = [0, matrix.ctypes.data, 0]
        binding.pitches[:], binding.strides[:] = ([0, one, 0] for one in matrix.strides)
        kind = CommandKind.STAGE_IN if inwards else CommandKind.STAGE_OUT
        item, queue = place.item_bytes, 0 if inwards else 2
        on_device = place.pointer, place.leading_dimension * item, place.padding * item
        commands = pack_commands(
            (CommandKind.RECORD, queue, 0),
            (kind, queue, 1, 0, 0, *matrix.shape, *on_device, item),
            (CommandKind.RECORD, queue, 1),
        )
        assert run_commands(self._pool, commands, binding) == 0
        kept = events, requests, matrix

        def await_end():
            """Wait for it; raise what stopped it."""
            assert kept
            if status := run_commands(self._pool, commands[:0], binding, event=1):
                raise Refusal(status)

        return await_end

    def copy(self, matrix, place, *, inwards):
        """Copy, and wait until the copy is over."""
        self.begin(matrix, place, inwards=inwards)()
        self.stage.finish()


def check(copying, shape, pitch, layout, dtype="float32"):
    """One matrix in, compared, and out again, compared, with padding on the device and without."""
    rows, columns = shape
    values = np.random.default_rng(rows).integers(0, 250, shape).astype(dtype)
    source = LAYOUTS[layout](values)
    for padding in {0, pitch - columns}:
        device = np.full((rows, pitch), 251, dtype)
        place = Layout(device.ctypes.data, rows, columns, pitch, values.itemsize, padding)
        copying.copy(source, place, inwards=True)
        assert np.array_equal(device[:, :columns], source), (shape, pitch, layout)
        # What holds something else is not written.
        assert padding or (device[:, columns:] == 251).all(), (shape, pitch, layout)
        back = LAYOUTS[layout](np.full_like(values, 252))
        copying.copy(back, place, inwards=False)
        assert np.array_equal(back, source), (shape, pitch, layout)


def check_parts(copying, widths):
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
        copying.copy(source[:, start:stop], part, inwards=True)
        copying.copy(back[:, start:stop], part, inwards=False)
    assert np.array_equal(device[:, :columns], source), widths
    assert np.array_equal(back, source), widths


def check_failure(copying, driver):
    """After a refusal by the driver every later copy fails, until the stage is abandoned."""
    matrix = np.ones((3, 5), np.float32)
    place = Layout(matrix.ctypes.data, 3, 5, 5, 4)
    driver.refuse(1)
    refused = [copying.begin(matrix, place, inwards=True) for _ in range(3)]
    for await_end in refused:
        with pytest.raises(Refusal, match="1"):
            await_end()
    driver.refuse(0)
    copying.stage.abandon()
    copying.copy(matrix, place, inwards=True)


def check_lost_context(copying, driver):
    """Where everything fails, nothing waits forever, not even for copies under way."""
    matrix = np.ones((1500, 1500), np.float32)
    device = np.zeros_like(matrix)
    place = Layout(device.ctypes.data, 1500, 1500, 1500, 4)
    for inwards in (True, False):
        underway = copying.begin(matrix, place, inwards=True)
        underway()
        driver.fail(700)
        failed = copying.begin(matrix, place, inwards=inwards)
        with pytest.raises(Refusal, match="700"):
            failed()
        with pytest.raises(Refusal, match="700"):
            copying.stage.finish()
        copying.stage.abandon()
        driver.fail(0)
        copying.stage.finish()


def check_dropping(copying):
    """Abandoned copies are done, begun or not; then the stage works again."""
    values = np.random.default_rng(1).random((3000, 1500), np.float32)
    device = np.zeros_like(values)
    place = Layout(device.ctypes.data, 3000, 1500, 1500, 4)
    copies = [copying.begin(values, place, inwards=True) for _ in range(50)]
    copying.stage.abandon()
    for await_end in copies:
        await_end()
    copying.copy(values, place, inwards=True)
    assert np.array_equal(device, values)


def send_out(copying, sizes):
    """Request copies of square matrices; returns each on the device, its target and its copy."""
    sent = []
    for value, size in enumerate(sizes):
        device = np.full((size, size), value, np.float32)
        matrix = np.full_like(device, -1)
        place = Layout(device.ctypes.data, size, size, size, 4)
        sent.append((device, matrix, copying.begin(matrix, place, inwards=False)))
    return sent


def check_queue(copying, driver):
    """Transfers run ahead into the next matrices, and each matrix gets its own elements."""
    sent = send_out(copying, [3, 1500, 700, 2500, 1, 1024, 1025, 2000] * 3)
    for device, matrix, await_end in sent:
        await_end()
        assert np.array_equal(device, matrix)
    copying.stage.finish()
    driver.hold(1)
    before = driver.count_works()
    eight_pieces, one_piece = send_out(copying, [700, 5])
    wait_until(lambda: driver.count_works() == before + 9)
    driver.hold(0)
    eight_pieces[2]()
    one_piece[2]()
    copying.stage.finish()


def check_queue_that_ends(copying, driver):
    """After failed or dropped copies, slabs with transfers that ran ahead are reused."""
    for _ in range(5):
        driver.hold(1)
        sent = send_out(copying, [1400, 5, 2500, 5])
        driver.fail(700)
        driver.hold(0)
        with pytest.raises(Refusal, match="700"):
            sent[-1][2]()
        copying.stage.abandon()
        driver.fail(0)
        driver.hold(1)
        dropped = send_out(copying, [5, 1400, 5, 2500])  # kept while copies may be made
        ending = threading.Thread(target=copying.stage.abandon)
        ending.start()
        driver.hold(0)
        ending.join()
        for device, matrix, await_end in send_out(copying, [1400, 5, 2500, 5]):
            await_end()
            assert np.array_equal(device, matrix)
        copying.stage.finish()
        for _, _, await_end in dropped:
            await_end()


def check_several(driver, pool):
    """More stages than tasks that are on offer at one time use a pool, whose limit changes."""

    def use(number):
        copying = Copying(driver, pool)
        for layout in LAYOUTS:
            check(copying, (190, 411), 448, layout)
        kept = send_out(copying, [190] * 5)
        copying.stage.abandon()
        copying.stage.finish()
        for _, _, await_end in kept:
            await_end()
        copying.stage.close()

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(18) as users:
        patch.setattr(stages, "SLAB_BYTES", 20_000)
        patch.setattr(stages, "SLABS", 3)
        running = [users.submit(use, number) for number in range(18)]
        for number, one in enumerate(running):
            pool.limit(number % 3)
            pool.wake(2)
            one.result()
    pool.limit(2)


def check_no_memory(pool):
    """Without memory for slabs there is no stage."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "_allocate_slabs", lambda _: refuse(2))
        with pytest.raises(Refusal, match="2"):
            Stage(pool, Stream(0), Stream(0))


def main():
    driver = Driver()
    pool = driver.open_pool(2)
    copying, functions = Copying(driver, pool), driver.functions
    for (rows, columns), layout in itertools.product(SHAPES, LAYOUTS):
        for gap in (0, 7, 100 if rows < 10**5 else 8):
            check(copying, (rows, columns), columns + gap, layout)
    for layout, dtype in itertools.product(LAYOUTS, ("uint8", "float16", "float64", "complex128")):
        check(copying, (257, 1031), 1038, layout, dtype)
    for threads in (0, 1, 2):
        pool.limit(threads)
        pool.wake(threads)
        check(copying, (1031, 1033), 1033, "columns")
    for widths in ((24, 23), (1, 1, 1), (5, 40, 2)):
        check_parts(copying, widths)
    check_failure(copying, functions)
    check_lost_context(copying, functions)
    check_dropping(copying)
    check_queue(copying, functions)
    check_queue_that_ends(copying, functions)
    copying.stage.close()
    copying.stage.close()  # does nothing
    check_several(driver, pool)
    check_no_memory(pool)
    pool.close()
    with pytest.raises(RuntimeError, match="ended"):
        Stage(pool, Stream(0), Stream(0))
    assert not driver.slabs


if __name__ == "__main__":
    main()
