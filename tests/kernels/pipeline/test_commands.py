"""The commands of a product give A·B in every order of its queues, on one GPU or several."""

import random
from ctypes import c_byte
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.schedule.plans import budgets, build_problems, cuts, problems
from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.gemm.prepared import Command, CommandKind
from wavetrim.kernels.pipeline.command_buffer import Timed
from wavetrim.kernels.pipeline.commands import Recorder
from wavetrim.kernels.pipeline.exchange import assign_ranks
from wavetrim.kernels.pipeline.prepared_steps import lay_out_steps
from wavetrim.kernels.schedule.buffers import pitch_items
from wavetrim.kernels.schedule.steps import cut_steps

TYPES = {4: np.float32, 8: np.float64}  # exact for small integers
STALE = 0xFF  # each byte of memory that nothing was written to: no number

shared_problems = build_problems(st.tuples(*3 * [st.integers(1, 700)]))
"""Products of several GPUs: a step of theirs has many commands."""


@dataclass(frozen=True)
class StepCall:
    """The launch of a step, named by its number."""

    number: int

    @property
    def command(self):
        return Command(CommandKind.LAUNCH, (self.number,))

    def enqueue(self, stream):
        raise AssertionError(f"submitted as a command, not to {stream}")


class Device:
    """Carries out commands on host memory: each queue in order, the queues in any order."""

    def __init__(self, steps, hosts, *, reads_c=False):
        self._steps, self._hosts, self._reads_c = steps, hosts, reads_c
        self._queues: list[list[Any]] = [[], [], [], []]
        self.peers = [self]
        self.recorded: set[int] = set()

    def enqueue(self, buffer):
        """Enqueue all commands."""
        for kind, queue, *words in buffer.commands.tolist():
            self._queues[queue].append((kind, words))

    def list_ready(self):
        """The queues whose next command can be carried out; none if all commands have been."""
        left = [queue for queue in self._queues if queue]
        ready = [queue for queue in left if self._is_ready(*queue[0])]
        assert ready or not left or len(self.peers) > 1, "an event is awaited that never comes"
        return ready

    def _is_ready(self, kind, words):
        if kind == CommandKind.WAIT_FOR_PEER:
            return words[1] in self.peers[words[0]].recorded
        return kind != CommandKind.WAIT or words[0] in self.recorded

    def carry_out(self, kind, words):
        """Carry out a command."""
        if kind == CommandKind.RECORD:
            self.recorded.add(words[0])
        elif kind == CommandKind.LAUNCH:
            placed = self._steps[words[0]]
            a, b, c = (self.view(one) for one in (placed.a, placed.b, placed.c))
            adds = self._reads_c or not placed.step.first
            c[...] = c + a @ b if adds else a @ b
        elif kind == CommandKind.COPY_BETWEEN:
            source, target, rows, row_bytes, pitch_bytes, _ = words[:6]
            item_bytes = self._hosts[0].itemsize
            shape = rows, row_bytes // item_bytes, pitch_bytes // item_bytes, item_bytes
            self.view(Layout(target, *shape))[...] = self.view(Layout(source, *shape))
        elif kind not in (CommandKind.WAIT, CommandKind.WAIT_FOR_PEER):
            operand, top, left, rows, columns, pointer, pitch_bytes, *_ = words
            host = self._hosts[operand]
            if kind in (CommandKind.COPY_IN, CommandKind.COPY_OUT):  # these are counted in bytes
                left, columns = left // host.itemsize, columns // host.itemsize
            part = host[top : top + rows, left : left + columns]
            pitch = pitch_bytes // host.itemsize
            device = self.view(Layout(pointer, rows, columns, pitch, host.itemsize))
            if kind in (CommandKind.COPY_IN, CommandKind.STAGE_IN):
                device[...] = part
            else:
                part[...] = device

    def view(self, place):
        """A matrix on the device."""
        size = (place.rows - 1) * place.leading_dimension + place.columns
        memory = (c_byte * (size * place.item_bytes)).from_address(place.pointer)
        items = np.frombuffer(memory, TYPES[place.item_bytes])
        strides = place.leading_dimension * place.item_bytes, place.item_bytes
        return np.lib.stride_tricks.as_strided(items, (place.rows, place.columns), strides)


def carry_out_all(devices, order):
    """Carry out all commands of all GPUs, in any order that their queues and events allow."""
    while ready := [(one, queue) for one in devices for queue in one.list_ready()]:
        device, queue = order.choice(ready)
        device.carry_out(*queue.pop(0))


def draw_problem(problem, seed):
    """Small integers as A and B of a problem, whose elements have a type of NumPy; and a C."""
    problem = replace(problem, item_bytes=max(4, problem.item_bytes))
    generator, dtype = np.random.default_rng(seed), TYPES[problem.item_bytes]
    m, n, k = problem.m, problem.n, problem.k
    a, b = (generator.integers(-3, 4, shape).astype(dtype) for shape in ((m, k), (k, n)))
    return problem, a, b, np.full((m, n), 99, dtype)


@settings(max_examples=30)
@given(
    problem=problems, cut=cuts, budget=budgets, reads_c=st.booleans(), seed=st.integers(0, 999),
    timed=st.sampled_from(Timed), staged=st.tuples(*3 * [st.booleans()]),
)  # fmt: skip
def test_every_order_of_the_queues_gives_the_product(
    problem, cut, budget, reads_c, seed, timed, staged
):
    problem, a, b, c = draw_problem(problem, seed)
    plan = cut_steps(problem, cut, budget)
    memory = np.full(plan.buffers.total_bytes, STALE, np.uint8)
    n, k = problem.n, problem.k
    resident = None
    if problem.b_resident:
        there = np.zeros((k, pitch_items(n, b.itemsize)), b.dtype)
        there[:, :n] = b
        resident = Layout(there.ctypes.data, k, n, there.shape[1], b.itemsize)
    steps = lay_out_steps(plan, memory.ctypes.data, resident)
    calls = [(StepCall(number),) for number in range(len(steps))]
    recorder = Recorder(steps, calls, reads_c=reads_c, timed=timed, staged=staged)
    buffer = recorder.record("test")
    assert len(buffer.ends) == len(steps) + any(staged)
    hosts = [a, np.full_like(b, 77) if problem.b_resident else b, c]
    device = Device(steps, hosts, reads_c=reads_c)
    device.enqueue(buffer)
    before = c.copy()
    carry_out_all([device], random.Random(seed))
    assert np.array_equal(c, a @ b + before if reads_c else a @ b)
    assert len(buffer.kernel_spans) == (len(steps) if timed == Timed.EACH else 0)
    assert len(buffer.whole_span) == bool(timed)
    awaited = buffer.commands[buffer.commands[:, 0] == CommandKind.WAIT, 2]
    kinds = buffer.commands[:, 0].tolist(), buffer.commands[:, 2].tolist()
    for event in set(awaited.tolist()):  # for CUDA, an unrecorded event has passed
        record, wait = (
            list(zip(*kinds, strict=True)).index((kind, event))
            for kind in (CommandKind.RECORD, CommandKind.WAIT)
        )
        assert record < wait


@settings(max_examples=10)
@given(
    problem=shared_problems, cut=cuts, gpus=st.integers(2, 4), seed=st.integers(0, 999),
    timed=st.sampled_from(Timed),
)  # fmt: skip
def test_gpus_that_exchange_b_give_the_product_in_every_order(problem, cut, gpus, seed, timed):
    problem, a, b, c = draw_problem(replace(problem, b_resident=False), seed)
    rows = -(-problem.m // gpus)
    parts = [slice(top, min(top + rows, problem.m)) for top in range(0, problem.m, rows)]
    plans = [cut_steps(replace(problem, m=len(c[part])), cut, 1 << 32) for part in parts]
    memories = [np.full(plan.buffers.total_bytes, STALE, np.uint8) for plan in plans]
    placed = [
        lay_out_steps(plan, memory.ctypes.data)
        for plan, memory in zip(plans, memories, strict=True)
    ]
    ranks = assign_ranks((0,) * len(parts), tuple(placed))
    assert ranks is not None
    devices, buffers = [], []
    for part, steps, rank in zip(parts, placed, ranks, strict=True):
        calls = [(StepCall(number),) for number in range(len(steps))]
        recorder = Recorder(steps, calls, reads_c=False, timed=timed, rank=rank)
        buffers.append(recorder.record("test"))
        devices.append(Device(steps, [a[part], b, c[part]]))
        devices[-1].peers = devices
        devices[-1].enqueue(buffers[-1])
    carry_out_all(devices, random.Random(seed))
    assert np.array_equal(c, a @ b)
    assert sum(map(count_bytes_of_b, buffers)) == b.nbytes
    check_batches(buffers)


def count_bytes_of_b(buffer):
    """The bytes of B that cross the link of a GPU."""
    is_b = (buffer.commands[:, 0] == CommandKind.COPY_IN) & (buffer.commands[:, 2] == 1)
    rows, row_bytes = buffer.commands[is_b, 5], buffer.commands[is_b, 6]
    return int(rows @ row_bytes)


def check_batches(buffers):
    """Each event of another GPU is recorded before its wait, if a batch of each is enqueued."""
    recorded = set()
    batches = [
        (batch, number, commands.tolist())
        for number, buffer in enumerate(buffers)
        for batch, commands in enumerate(np.split(buffer.commands, buffer.ends[:-1]))
    ]
    for _, number, commands in sorted(batches):
        for kind, _, first, second, *_ in commands:
            if kind == CommandKind.RECORD:
                recorded.add((number, first))
            elif kind == CommandKind.WAIT:
                assert (number, first) in recorded
            elif kind == CommandKind.WAIT_FOR_PEER:
                assert (first, second) in recorded
