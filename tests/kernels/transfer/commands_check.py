"""Runs the commands of random products, by a driver whose streams are threads.

A program of its own, because the driver has the name of CUDA's. Its arguments are that library, and
the folder of compiled C.
"""

import ctypes
import random
import sys
from pathlib import Path

import numpy as np

from tests.kernels.transfer.staging_check import HostMemory, refuse
from wavetrim.kernels.gemm.prepared import Command, CommandKind, pack_arguments
from wavetrim.kernels.pipeline.command_buffer import NOT_STAGED, Timed
from wavetrim.kernels.pipeline.commands import Recorder
from wavetrim.kernels.pipeline.prepared_steps import lay_out_steps
from wavetrim.kernels.pipeline.submission import Binding
from wavetrim.kernels.schedule.panels import Cut, PanelProblem
from wavetrim.kernels.schedule.steps import cut_steps
from wavetrim.kernels.transfer import stage as stages
from wavetrim.kernels.transfer.host_library import open_copiers

ITEM = 4
PRODUCTS = 60


class Product(ctypes.Structure):
    """What the driver's kernel multiplies, as in stream_driver.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in "abc"),
        *(
            (name, ctypes.c_long)
            for name in ("rows", "columns", "depth", "a_pitch", "b_pitch", "c_pitch", "adds")
        ),
    )


class StepCall:
    """The launch of a step."""

    def __init__(self, one, *, reads_c):
        layouts = one.a, one.b, one.c
        self._arguments = pack_arguments(
            (
                Product(
                    *(layout.pointer for layout in layouts),
                    *(one.c.rows, one.c.columns, one.a.columns),
                    *(layout.leading_dimension for layout in layouts),
                    reads_c or not one.step.first,
                ),
            )
        )
        words = 1, 1, 1, 1, 1, 0, self._arguments.address
        self.command = Command(CommandKind.LAUNCH, words)


def draw_matrix(generator, rows, columns):
    """Small integers in rows, in columns, or in part of a larger matrix."""
    values = np.random.default_rng(generator.random_seed).integers(-3, 4, (rows, 2 * columns))
    return generator.choice(
        (
            lambda: np.ascontiguousarray(values[:, :columns], np.float32),
            lambda: np.asfortranarray(values[:, :columns], np.float32),
            lambda: values.astype(np.float32)[:, ::2],
        )
    )()


class Generator(random.Random):
    """Random choices, and seeds for NumPy."""

    @property
    def random_seed(self):
        return self.randrange(1 << 30)


def check_product(library, stage, streams, make_event, generator):
    """One product, submitted at once or batch by batch; two runs of the same commands."""
    m, n, k = (generator.randint(1, 90) for _ in range(3))
    problem = PanelProblem(m, n, k, ITEM, 16, 16, 8, 4)
    cut = Cut(generator.randint(1, m), generator.randint(1, m), generator.randint(1, k))
    plan = cut_steps(problem, cut, generator.choice((20_000, 40_000, 1 << 20)))
    memory = np.full(plan.buffers.total_bytes + 256, 0xFF, np.uint8)
    steps = lay_out_steps(plan, -(-memory.ctypes.data // 256) * 256)
    reads_c, timed = generator.random() < 0.5, generator.choice(list(Timed))
    staged = tuple(generator.random() < 0.7 for _ in range(3))
    calls = [(StepCall(one, reads_c=reads_c),) for one in steps]
    recorder = Recorder(steps, calls, reads_c=reads_c, timed=timed, staged=staged)
    buffer = recorder.record("test")
    events = (ctypes.c_void_p * buffer.events)(*(make_event() for _ in range(buffer.events)))
    requests = np.zeros(buffer.events, np.int64)
    binding = Binding(
        events=ctypes.addressof(events),
        stage=stage.address if staged != NOT_STAGED else None,
        requests=requests.ctypes.data,
    )
    binding.context = find_context()
    binding.streams[:] = streams
    for _ in range(2):
        a, b, c = (draw_matrix(generator, *shape) for shape in ((m, k), (k, n), (m, n)))
        a, b, c = (
            one if is_staged else np.ascontiguousarray(one)
            for one, is_staged in zip((a, b, c), staged, strict=True)
        )
        expected = a @ b + c if reads_c else a @ b
        operands = a, b, c
        binding.hosts[:] = [one.ctypes.data for one in operands]
        binding.pitches[:] = [one.strides[0] for one in operands]
        binding.strides[:] = [one.strides[1] for one in operands]
        run = library.run_commands
        address, size = buffer.address, buffer.commands.strides[0]
        if generator.random() < 0.5:
            count = len(buffer.commands)
            assert run(address, count, ctypes.addressof(binding), buffer.end, 1) == 0
        else:
            begin = 0
            for end in buffer.ends.tolist():
                first = address + begin * size
                assert run(first, end - begin, ctypes.addressof(binding), -1, 0) == 0
                begin = end
            for store in buffer.stores:
                assert run(address, 0, ctypes.addressof(binding), store.event, 0) == 0
        stage.finish()
        assert np.array_equal(c, expected), (m, n, k, cut, staged, reads_c, timed)


def find_context():
    """The driver's context."""
    context = ctypes.c_void_p()
    ctypes.CDLL(sys.argv[1]).cuCtxGetCurrent(ctypes.byref(context))
    return context.value


def main():
    """Run the checks."""
    driver = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
    driver.make_stream.restype = ctypes.c_void_p
    memory = HostMemory()
    stages._allocate_slabs = memory.allocate
    stages._free_slabs = memory.free
    stages._raise = refuse
    stages.SLAB_BYTES, stages.SLABS = 1024, 3
    streams = [driver.make_stream(seed) for seed in range(4)]

    def make_event():
        event = ctypes.c_void_p()
        driver.cuEventCreate(ctypes.byref(event), 0)
        return event.value

    class Stream:
        def __init__(self, address):
            self.ptr = address

    pool = open_copiers(3, cache_dir=Path(sys.argv[2]))
    stage = stages.Stage(pool, Stream(streams[0]), Stream(streams[2]))
    generator = Generator(int(sys.argv[3]))
    for _ in range(PRODUCTS):
        pool.limit(generator.randint(0, 3))
        check_product(pool.library, stage, streams, make_event, generator)
    stage.close()
    pool.close()


if __name__ == "__main__":
    main()
