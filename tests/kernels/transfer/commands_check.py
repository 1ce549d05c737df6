"""Runs the commands of random products on one GPU and several, in random orders of the streams."""

import ctypes
import itertools
import random
import sys
from dataclasses import replace

import numpy as np

from tests.kernels.transfer.driver import Driver, Stream, pack_commands, run_commands
from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.gemm.prepared import Command, CommandKind, PreparedLaunch, pack_arguments
from wavetrim.kernels.pipeline.command_buffer import NOT_STAGED, Timed
from wavetrim.kernels.pipeline.commands import Recorder
from wavetrim.kernels.pipeline.exchange import assign_ranks
from wavetrim.kernels.pipeline.prepared_steps import lay_out_steps
from wavetrim.kernels.schedule.buffers import pitch_items
from wavetrim.kernels.schedule.panels import Cut, PanelProblem
from wavetrim.kernels.schedule.steps import cut_steps
from wavetrim.kernels.transfer import stage as stages

PRODUCTS, EXCHANGES, MOST_GPUS = 120, 40, 4
SMALL_TILE, BUDGETS = (16, 16, 8), (20_000, 40_000, 1 << 20)
"""A tile, and bytes of device memory, for which products are cut often."""


class Product(ctypes.Structure):
    """What the driver's kernel multiplies, as in driver.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in "abc"),
        *(
            (name, ctypes.c_long)
            for name in ("rows", "columns", "depth", "a_pitch", "b_pitch", "c_pitch", "adds")
        ),
    )


def launch_step(one, *, reads_c):
    """The launch of a step."""
    layouts = one.a, one.b, one.c
    product = Product(
        *(layout.pointer for layout in layouts),
        *(one.c.rows, one.c.columns, one.a.columns),
        *(layout.leading_dimension for layout in layouts),
        reads_c or not one.step.first,
    )
    arguments, memory = pack_arguments((product,))
    return PreparedLaunch((Command(CommandKind.LAUNCH, (1, 1, 1, 1, 1, 0, arguments), memory),))


def draw_matrix(generator, rows, columns, *, lies_anyhow):
    """Small integers in rows, or anyhow: in columns, or in part of a larger matrix."""
    values = np.random.default_rng(generator.getrandbits(30)).integers(-3, 4, (rows, 2 * columns))
    values = values.astype(np.float32)
    part = values[:, ::2]
    ways = (np.ascontiguousarray(part), np.asfortranarray(part), part)
    return generator.choice(ways) if lies_anyhow else ways[0]


def draw_problem(generator, *, may_reside):
    """A product of whole numbers by a kernel of some kind, and device memory for it, in bytes."""
    shape = [generator.randint(1, generator.choice((90, 300))) for _ in range(3)]
    tile = generator.choice((SMALL_TILE, SMALL_TILE, (32, 32, 4), (128, 256, 32)))
    budget = (
        generator.choice((1 << 20, 1 << 22)) if tile != SMALL_TILE else generator.choice(BUDGETS)
    )
    problem = PanelProblem(
        *(*shape, 4, *tile),
        slots=generator.choice((4, 40, 132)),
        term_item_bytes=6 if budget > BUDGETS[-1] and generator.random() < 0.5 else 0,
        stream_k_tail=generator.random() < 0.5,
        stream_k_short=generator.random() < 0.5,
        b_resident=may_reside and generator.random() < 0.3,
    )
    return problem, budget


def draw_cut(generator, problem):
    """A cut, of not too many steps."""
    m, k = problem.m, problem.k
    most = max(1, m // 6)
    return Cut(
        generator.randint(most, m), generator.randint(most, m), generator.randint(-(-k // 4), k)
    )


def record(steps, *, reads_c=False, **how):
    """The commands of steps."""
    launches = [launch_step(one, reads_c=reads_c) for one in steps]
    return Recorder(steps, launches, reads_c=reads_c, **how).record("test")


def allocate(plan):
    """Memory of a device, none of whose bytes is a number's, and its address."""
    memory = np.full(plan.buffers.total_bytes + 256, 0xFF, np.uint8)
    return memory, -(-memory.ctypes.data // 256) * 256


def name_hosts(binding, operands):
    binding.hosts[:] = [one.ctypes.data for one in operands]
    binding.pitches[:] = [one.strides[0] for one in operands]
    binding.strides[:] = [one.strides[1] for one in operands]


def check_product(driver, pool, stage, generator):
    """One product, submitted at once or batch by batch; two runs of the same commands."""
    problem, budget = draw_problem(generator, may_reside=True)
    m, n, k = problem.m, problem.n, problem.k
    plan = cut_steps(problem, draw_cut(generator, problem), budget)
    _memory, address = allocate(plan)
    there = np.zeros((k, pitch_items(n, 4)), np.float32)
    resident = Layout(there.ctypes.data, k, n, there.shape[1], 4) if problem.b_resident else None
    steps = lay_out_steps(plan, address, resident)
    reads_c, timed = generator.random() < 0.5, generator.choice(list(Timed))
    staged = tuple(generator.random() < 0.7 for _ in range(3))
    buffer = record(steps, reads_c=reads_c, timed=timed, staged=staged)
    assert len(buffer.ends) == len(steps) + any(staged)
    assert len(buffer.kernel_spans) == (len(steps) if timed == Timed.EACH else 0)
    assert len(buffer.whole_span) == bool(timed)
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
        if problem.b_resident:
            there[:, :n] = b
            b[...] = 77
        name_hosts(binding, operands)
        if generator.random() < 0.5:
            status = run_commands(pool, buffer.commands, binding, event=buffer.end, at_once=1)
            assert status == 0
        else:
            for batch in np.split(buffer.commands, buffer.ends[:-1]):
                assert run_commands(pool, batch, binding) == 0
            for store in buffer.stores:
                assert run_commands(pool, buffer.commands[:0], binding, event=store.event) == 0
        stage.finish()
        assert np.array_equal(c, expected), (problem, plan.cut, staged, reads_c, timed)


def check_exchange(driver, pool, generator):
    """GPUs that exchange B give the product; the host sends B once."""
    problem, _ = draw_problem(generator, may_reside=False)
    cut, gpus = draw_cut(generator, problem), generator.randint(2, MOST_GPUS)
    a, b, c = (
        draw_matrix(generator, *shape, lies_anyhow=False)
        for shape in ((problem.m, problem.k), (problem.k, problem.n), (problem.m, problem.n))
    )
    tops = range(0, problem.m, -(-problem.m // gpus))
    parts = [slice(top, top + tops.step) for top in tops]
    plans = [cut_steps(replace(problem, m=len(c[part])), cut, 1 << 32) for part in parts]
    _memories, addresses = zip(*map(allocate, plans), strict=True)
    placed = tuple(map(lay_out_steps, plans, addresses))
    ranks = assign_ranks((0,) * len(parts), placed)
    timed = generator.choice(list(Timed))
    buffers = [
        record(steps, timed=timed, rank=rank) for steps, rank in zip(placed, ranks, strict=True)
    ]
    events = [driver.make_events(buffer.events) for buffer in buffers]
    peers = (ctypes.c_void_p * len(events))(*map(ctypes.addressof, events))
    bindings = []
    for gpu, part in enumerate(parts):
        streams = range(4 * gpu, 4 * gpu + 4)
        bindings.append(driver.bind(events[gpu], streams=streams, peers=ctypes.addressof(peers)))
        name_hosts(bindings[-1], (a[part], b, c[part]))
    batches = [np.split(buffer.commands, buffer.ends[:-1]) for buffer in buffers]
    for round_ in itertools.zip_longest(*batches):  # as run_together enqueues them
        for binding, batch in zip(bindings, round_, strict=True):
            assert batch is None or run_commands(pool, batch, binding) == 0
    for binding, buffer in zip(bindings, buffers, strict=True):
        assert run_commands(pool, buffer.commands[:0], binding, event=buffer.end) == 0
    assert np.array_equal(c, a @ b), (problem, cut, gpus, timed)
    assert sum(map(count_bytes_of_b, buffers)) == b.nbytes


def count_bytes_of_b(buffer):
    """The bytes of B that cross the link of a GPU."""
    commands = buffer.commands
    copies = commands[(commands[:, 0] == CommandKind.COPY_IN) & (commands[:, 2] == 1)]
    return int(copies[:, 5] @ copies[:, 6])


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
    for _ in range(EXCHANGES):
        check_exchange(driver, pool, generator)
    stage.close()
    pool.close()


if __name__ == "__main__":
    main()
