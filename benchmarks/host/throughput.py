"""Throughput: equal products that wait together, on one GPU, on two and so on of a host.

wavetrim places them as its service does (`scheduler/planning/lanes.py`). CuPy streams one product
after the other through each GPU, from a thread of its own. Both run on every number of GPUs, in
turns.
"""

import contextlib
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final

from benchmarks.common.operands import Operands, draw_operands, pin_operands
from benchmarks.common.shapes import ProductRow, make_cube
from benchmarks.common.turns import find_spread, take_turns
from benchmarks.host.baselines.lineup import OURS
from benchmarks.host.baselines.streamed_cupy import StreamedCupy
from wavetrim.kernels.transfer.pinned import pin_matrix
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.options import NO_OPTIONS
from wavetrim.scheduler.planning.cache import PlanCache
from wavetrim.scheduler.planning.lanes import Choice, Lane, list_choices, place_products
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile

PRODUCTS: Final = 64
SHAPE: Final = make_cube(4096)
TURNS: Final = 5

_LOOK_AHEAD: Final = 8
_LEAST_SECONDS: Final = 1e-3
"""Products that are placed at a time, and the least time that one goes on for; chosen."""


@dataclass(frozen=True, slots=True)
class ThroughputRow(ProductRow):
    """Products a second.

    Attributes:
        memory: "pinned".
        baseline: Who computes them.
        gpus: GPUs that may be used.
        products: How many wait together.
        products_per_second: Median of the turns.
        spread: Slowest minus fastest turn, over the median.
        turns: Number of turns.
    """

    memory: str
    baseline: str
    gpus: int
    products: int
    products_per_second: float
    spread: float
    turns: int


def measure_throughput(
    executor: Executor, profile: MachineProfile, *, until: float
) -> list[ThroughputRow]:
    """Let wavetrim and CuPy compute `PRODUCTS` products, on every number of GPUs, in turns.

    Args:
        executor: Has at least two GPUs.
        profile: Its profile.
        until: Value of time.perf_counter() after which no further round begins.
    """
    dtype = "float32"
    operands = pin_operands(draw_operands(SHAPE, dtype))
    count = len(executor.devices)
    outs: SimpleQueue[Operands] = SimpleQueue()
    for _ in range(count + 1):  # one for each lane
        outs.put(replace(operands, c=pin_matrix(SHAPE[0], SHAPE[1], dtype)))
    cupy = _CupyOnEach([device.index for device in executor.devices], operands)
    sides: dict[tuple[str, int], Callable[[], None]] = {}
    for gpus in range(1, count + 1):
        plans = _Plans(executor, profile, outs)
        sides[OURS, gpus] = partial(
            compute_waiting, PRODUCTS, plans.list_choices(gpus), gpus, plans.compute
        )
        sides["cupy-gpus", gpus] = partial(cupy.run, outs, gpus)
    seconds: dict[tuple[str, int], list[float]] = {side: [] for side in sides}
    for run in sides.values():
        run()  # compiles, allocates
    for _, side in take_turns(sides, TURNS, least=1, seed=str(SHAPE), until=until):
        started = time.perf_counter()
        sides[side]()
        seconds[side].append(time.perf_counter() - started)
    cupy.release()
    return [
        ThroughputRow(
            *SHAPE, dtype=dtype, memory="pinned", baseline=name, gpus=gpus, products=PRODUCTS,
            products_per_second=PRODUCTS / statistics.median(taken),
            spread=find_spread(taken, statistics.median(taken)), turns=len(taken),
        )
        for (name, gpus), taken in seconds.items()
    ]  # fmt: skip


def compute_waiting(
    products: int, choices: Sequence[Choice], gpus: int, compute: Callable[[Lane], None]
) -> None:
    """Compute equal products that wait together, each on the devices that it is given.

    The thread whose product has ended begins the next one, so that its devices do not wait for
    another thread to wake up.

    Args:
        products: How many.
        choices: The lanes that each may take.
        gpus: GPUs of the machine.
        compute: Computes one product in a lane.
    """
    waiting = products
    ends: dict[Lane, float] = {}
    working: list[Future[None]] = []
    lock = threading.Lock()

    def place() -> list[Lane]:
        nonlocal waiting
        now = time.perf_counter()
        busy = {
            device: max(_LEAST_SECONDS, end - now) for lane, end in ends.items() for device in lane
        }
        ahead = min(waiting, _LOOK_AHEAD)
        places = place_products([choices] * ahead, busy, gpus, behind=waiting - ahead)
        begun = [place.choice for place in places if place.begins <= 0]
        ends.update({one.lane: now + one.seconds for one in begun})
        waiting -= len(begun)
        return [one.lane for one in begun]

    def work(lane: Lane | None) -> None:
        while lane is not None:
            compute(lane)
            with lock:
                del ends[lane]
                begun = place()
            working.extend([threads.submit(work, other) for other in begun[1:]])
            lane = begun[0] if begun else None

    with ThreadPoolExecutor(gpus + 1) as threads:
        with lock:
            begun = place()
        working.extend([threads.submit(work, lane) for lane in begun])
        for future in working:  # grows meanwhile
            future.result()


class _Plans:
    """The plan of the product in each lane."""

    def __init__(
        self, executor: Executor, profile: MachineProfile, outs: "SimpleQueue[Operands]"
    ) -> None:
        self._executor, self._profile, self._outs = executor, profile, outs
        self._cache = PlanCache()
        self._problem = GemmProblem(*SHAPE, memory="pinned")

    def list_choices(self, gpus: int) -> tuple[Choice, ...]:
        """The lanes with some of the GPUs."""
        names = [(place, one.name) for place, one in enumerate(self._executor.devices[:gpus])]
        return list_choices(names, lambda lane, _: self._choose(lane))

    def compute(self, lane: Lane) -> None:
        """Compute one product."""
        operands = self._outs.get()
        self._executor.run(self._choose(lane), operands.a, operands.b, operands.c)
        self._outs.put(operands)

    def _choose(self, lane: Lane) -> Plan:
        return self._cache.choose(self._problem, self._profile, NO_OPTIONS, lane)


class _CupyOnEach:
    """`StreamedCupy` for whole products on each GPU, in a thread of its own that is kept."""

    def __init__(self, devices: Sequence[int], operands: Operands) -> None:
        self._devices = tuple(devices)
        self._streamed = [StreamedCupy() for _ in devices]
        self._threads = [ThreadPoolExecutor(1) for _ in devices]
        for place in range(len(devices)):
            self._threads[place].submit(self._prepare, place, operands).result()

    def run(self, outs: "SimpleQueue[Operands]", gpus: int) -> None:
        """Compute the products on the first GPUs."""
        left = SimpleQueue[int]()
        for number in range(PRODUCTS):
            left.put(number)
        working = [
            self._threads[place].submit(self._work, place, outs, left) for place in range(gpus)
        ]
        for one in working:
            one.result()

    def release(self) -> None:
        """Give back streams and buffers."""
        for place, thread in enumerate(self._threads):
            thread.submit(self._release, place).result()
            thread.shutdown()

    def _prepare(self, place: int, operands: Operands) -> None:
        from cupy.cuda import Device

        Device(self._devices[place]).use()
        self._streamed[place].prepare(operands, 0.0)

    def _work(self, place: int, outs: "SimpleQueue[Operands]", left: "SimpleQueue[int]") -> None:
        operands = outs.get()
        with contextlib.suppress(Empty):
            while True:
                left.get_nowait()
                self._streamed[place].multiply(operands)
        outs.put(operands)

    def _release(self, place: int) -> None:
        self._streamed[place].release()
