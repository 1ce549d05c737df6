"""The commands of a product give A·B in every order of its three queues."""

import random
from ctypes import c_byte
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.kernels.schedule.plans import budgets, plan_steps, problems
from wavetrim.kernels.gemm.operands import Layout
from wavetrim.kernels.gemm.prepared import Command, CommandKind
from wavetrim.kernels.pipeline.command_buffer import CommandBuffer, Timed, record_commands
from wavetrim.kernels.pipeline.places import PlacedStep, place_steps
from wavetrim.kernels.schedule.buffers import pitch_items

TYPES = {4: np.float32, 8: np.float64}  # exact for small integers


@dataclass(frozen=True)
class StepCall:
    """The launch of a step, named by its number."""

    number: int

    @property
    def command(self) -> Command:
        return Command(CommandKind.LAUNCH, (self.number,))

    def enqueue(self, stream: int) -> None:
        raise AssertionError(f"submitted as a command, not to {stream}")


class Device:
    """Carries out commands on host memory: each queue in order, the queues in any order."""

    def __init__(self, steps: tuple[PlacedStep, ...], hosts: list[NDArray[Any]]) -> None:
        self._steps, self._hosts = steps, hosts
        self._recorded: set[int] = set()

    def run(self, buffer: CommandBuffer, order: random.Random) -> None:
        """Carry out all commands."""
        queues: list[list[Any]] = [[], [], []]
        for kind, queue, *words in buffer.commands.tolist():
            queues[queue].append((kind, words))
        while any(queues):
            ready = [queue for queue in queues if queue and self._is_ready(*queue[0])]
            assert ready, "an event is awaited that never comes"
            self._carry_out(*order.choice(ready).pop(0))

    def _is_ready(self, kind: int, words: list[int]) -> bool:
        return kind != CommandKind.WAIT or words[0] in self._recorded

    def _carry_out(self, kind: int, words: list[int]) -> None:
        if kind == CommandKind.RECORD:
            self._recorded.add(words[0])
        elif kind == CommandKind.LAUNCH:
            placed = self._steps[words[0]]
            a, b, c = (self.view(one) for one in (placed.a, placed.b, placed.c))
            c[...] = a @ b if placed.step.first else c + a @ b
        elif kind in (CommandKind.COPY_IN, CommandKind.COPY_OUT):
            operand, top, left_bytes, rows, row_bytes, pointer, pitch_bytes = words
            host = self._hosts[operand]
            left, columns = left_bytes // host.itemsize, row_bytes // host.itemsize
            part = host[top : top + rows, left : left + columns]
            pitch = pitch_bytes // host.itemsize
            device = self.view(Layout(pointer, rows, columns, pitch, host.itemsize))
            if kind == CommandKind.COPY_IN:
                device[...] = part
            else:
                part[...] = device

    def view(self, place: Layout) -> NDArray[Any]:
        """A matrix on the device."""
        size = (place.rows - 1) * place.leading_dimension + place.columns
        memory = (c_byte * (size * place.item_bytes)).from_address(place.pointer)
        items = np.frombuffer(memory, TYPES[place.item_bytes])
        strides = place.leading_dimension * place.item_bytes, place.item_bytes
        return np.lib.stride_tricks.as_strided(items, (place.rows, place.columns), strides)


@settings(max_examples=30)
@given(problem=problems, budget=budgets, seed=st.integers(0, 999), timed=st.sampled_from(Timed))
def test_every_order_of_the_queues_gives_the_product(problem, budget, seed, timed):
    problem = replace(problem, item_bytes=max(4, problem.item_bytes))
    plan = plan_steps(problem, budget)
    memory = np.zeros(plan.buffers.total_bytes, np.uint8)
    generator, dtype = np.random.default_rng(seed), TYPES[problem.item_bytes]
    m, n, k = problem.m, problem.n, problem.k
    a, b = (generator.integers(-3, 4, shape).astype(dtype) for shape in ((m, k), (k, n)))
    c = np.full((m, n), 99, dtype)
    resident = None
    if problem.b_resident:
        there = np.zeros((k, pitch_items(n, b.itemsize)), dtype)
        there[:, :n] = b
        resident = Layout(there.ctypes.data, k, n, there.shape[1], b.itemsize)
    steps = place_steps(plan, memory.ctypes.data, resident)
    calls = [(StepCall(number),) for number in range(len(steps))]
    buffer = record_commands(steps, calls, label="test", reads_c=False, timed=timed)
    hosts = [a, np.full_like(b, 77) if problem.b_resident else b, c]
    Device(steps, hosts).run(buffer, random.Random(seed))
    assert np.array_equal(c, a @ b)
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
