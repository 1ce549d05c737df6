"""Runs the commands of random products, whose streams are worked off in random orders."""

import ctypes
import random
import sys

import numpy as np

from tests.kernels.transfer.driver import (
    Driver,
    Stream,
    pack_commands,
    run_commands,
)
from wavetrim.kernels.gemm.prepared import Command, CommandKind, pack_arguments
from wavetrim.kernels.pipeline.command_buffer import NOT_STAGED, Timed
from wavetrim.kernels.pipeline.commands import Recorder
from wavetrim.kernels.pipeline.prepared_steps import lay_out_steps
from wavetrim.kernels.schedule.panels import Cut, PanelProblem
from wavetrim.kernels.schedule.steps import cut_steps
from wavetrim.kernels.transfer import stage as stages

PRODUCTS = 60


class Product(ctypes.Structure):
    """What the driver's kernel multiplies, as in driver.c."""

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
        product = Product(
            *(layout.pointer for layout in layouts),
            *(one.c.rows, one.c.columns, one.a.columns),
            *(layout.leading_dimension for layout in layouts),
            reads_c or not one.step.first,
        )
        self._arguments = pack_arguments((product,))
        words = 1, 1, 1, 1, 1, 0, self._arguments.address
        self.command = Command(CommandKind.LAUNCH, words)


def draw_matrix(generator, rows, columns, *, lies_anyhow):
    """Small integers in rows, or anyhow: in columns, or in part of a larger matrix."""
    values = np.random.default_rng(generator.getrandbits(30)).integers(-3, 4, (rows, 2 * columns))
    values = values.astype(np.float32)
    part = values[:, ::2]
    ways = (np.ascontiguousarray(part), np.asfortranarray(part), part)
    return generator.choice(ways) if lies_anyhow else ways[0]


def check_product(driver, pool, stage, generator):
    """One product, submitted at once or batch by batch; two runs of the same commands."""
    m, n, k = (generator.randint(1, 90) for _ in range(3))
    problem = PanelProblem(m, n, k, 4, 16, 16, 8, 4)
    cut = Cut(generator.randint(1, m), generator.randint(1, m), generator.randint(1, k))
    plan = cut_steps(problem, cut, generator.choice((20_000, 40_000, 1 << 20)))
    memory = np.full(plan.buffers.total_bytes + 256, 0xFF, np.uint8)
    steps = lay_out_steps(plan, -(-memory.ctypes.data // 256) * 256)
    reads_c, timed = generator.random() < 0.5, generator.choice(list(Timed))
    staged = tuple(generator.random() < 0.7 for _ in range(3))
    calls = [(StepCall(one, reads_c=reads_c),) for one in steps]
    buffer = Recorder(steps, calls, reads_c=reads_c, timed=timed, staged=staged).record("test")
    events, requests = driver.make_events(buffer.events), np.zeros(buffer.events, np.int64)
    binding = driver.bind(
        events,
        streams=range(4),
        stage=stage.address if staged != NOT_STAGED else None,
        requests=requests.ctypes.data,
    )
    for _ in range(2):
        a, b, c = operands = [
            draw_matrix(generator, *shape, lies_anyhow=is_staged)
            for shape, is_staged in zip(((m, k), (k, n), (m, n)), staged, strict=True)
        ]
        expected = a @ b + c if reads_c else a @ b
        binding.hosts[:] = [one.ctypes.data for one in operands]
        binding.pitches[:] = [one.strides[0] for one in operands]
        binding.strides[:] = [one.strides[1] for one in operands]
        if generator.random() < 0.5:
            status = run_commands(pool, buffer.commands, binding, event=buffer.end, at_once=1)
            assert status == 0
        else:
            for batch in np.split(buffer.commands, buffer.ends[:-1]):
                assert run_commands(pool, batch, binding) == 0
            for store in buffer.stores:
                assert run_commands(pool, buffer.commands[:0], binding, event=store.event) == 0
        stage.finish()
        assert np.array_equal(c, expected), (m, n, k, cut, staged, reads_c, timed)


def check_clearing(driver, pool):
    """Memory is cleared in its stream, times are read, and a refusal is told."""
    memory, values = np.ones(100, np.uint8), np.ones((2, 3), np.float32)
    events = driver.make_events(2)
    binding = driver.bind(events)
    binding.hosts[:], binding.pitches[:] = 3 * [values.ctypes.data], 3 * [values.strides[0]]
    commands = pack_commands(
        (CommandKind.RECORD, 0, 0),
        (CommandKind.COPY_IN, 0, 0, 0, 0, 2, 12, memory.ctypes.data, 20),
        (CommandKind.CLEAR, 0, memory.ctypes.data + 10, 30),
        (CommandKind.RECORD, 0, 1),
    )
    assert run_commands(pool, commands, binding, event=1) == 0
    assert not memory[10:40].any()
    assert memory[40:].all()
    seconds, pairs = ctypes.c_double(), np.array([(0, 1), (0, 1)], np.int32)
    pool.library.read_spans(ctypes.addressof(binding), pairs.ctypes.data, 2, ctypes.byref(seconds))
    assert seconds.value == 2 * 2e-3  # the driver calls a copy or clearing a millisecond
    driver.functions.refuse(2)
    assert run_commands(pool, commands, binding) == 2
    driver.functions.refuse(0)


def main():
    driver = Driver()
    pool = driver.open_pool(3)
    check_clearing(driver, pool)
    stages.SLAB_BYTES, stages.SLABS = 1024, 3
    stage = stages.Stage(pool, Stream(0), Stream(2))
    generator = random.Random(int(sys.argv[3]))
    for _ in range(PRODUCTS):
        pool.limit(generator.randint(0, 3))
        check_product(driver, pool, stage, generator)
    stage.close()
    pool.close()


if __name__ == "__main__":
    main()
