"""One process that measures: each baseline at each product once a round, in a random order.

The order mixes products as well as baselines: so before a product comes back, others have used the
caches, the plans and what was prepared. A `contest` starts such processes, writes an `Order` to
them as JSON, and reads their rows.
"""

import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from benchmarks.common.freivalds import FreivaldsCheck
from benchmarks.common.operands import Operands, draw_operands, pin_operands, poison
from benchmarks.common.shapes import Product
from benchmarks.host.baselines import NUMPY, Baseline, list_baselines
from benchmarks.host.conditions import Condition, burn_cores
from benchmarks.host.results import HostRow
from wavetrim.cpu.threads import usable_cores
from wavetrim.kernels.catalog import find_kernel
from wavetrim.kernels.timing.joint_rates import measure_joint_rates
from wavetrim.kernels.timing.seconds import DeviceProduct

LONGEST_CPU_SECONDS: Final = 1.0
"""Without a GPU, products that take NumPy longer, the first time, are left out."""

SLOW_SECONDS: Final = 0.1
FAR_RATIO: Final = 4.0
QUICK_SECONDS: Final = 5e-3
EVERY: Final = 3
"""A baseline takes part only in every third round if it takes longer than SLOW_SECONDS, or both
longer than QUICK_SECONDS and FAR_RATIO times as long as the fastest one. Chosen, to save time."""

BEFORE_SIDE: Final = 1500
"""M = N = K of NumPy's product before each turn in the condition after-numpy."""

PAUSE_SECONDS: Final = 0.12
"""Pause for OpenBLAS's threads, which spin for about 0.1 s after a product."""

WAKE_SIDE: Final = 2048
WAKE_SECONDS: Final = 0.03
"""M = N = K, and seconds, of the products that raise the clocks of an idle GPU."""

_LINK_BYTES: Final = 2**29
_LINK_TURNS: Final = 9
_LAUNCHES: Final = 5
"""Bytes and turns for the rate of the links, and launches of cuBLAS; chosen."""


@dataclass(frozen=True, slots=True)
class Order:
    """What one process measures.

    Attributes:
        conditions: Conditions, in order.
        products: (M, N, K, element type) of each product.
        gpus: GPUs that this process sees.
        seconds: What it may take, from its start.
        rounds: Rounds in each condition, if there is time.
        seed: Seed of the orders within rounds.
        checks: Whether the product of each baseline is checked, the GPUs' limit is measured, and
            products may be left out: in the first run.
    """

    conditions: Sequence[Condition]
    products: Sequence[tuple[int, int, int, str]]
    gpus: int
    seconds: float
    rounds: int
    seed: str
    checks: bool


@dataclass(slots=True, eq=False)
class Pair:
    """A baseline at a product, and its turns in the present condition."""

    baseline: Baseline
    operands: Operands
    limit_seconds: float | None = None
    seconds: list[float] = field(default_factory=list)
    is_slow: bool = False

    def take_turn(self) -> None:
        """Multiply once."""
        began = time.perf_counter()
        self.baseline.multiply(self.operands)
        self.seconds.append(time.perf_counter() - began)

    def make_row(self, condition: Condition) -> HostRow:
        """The row of the turns so far."""
        operands, median = self.operands, statistics.median(self.seconds)
        baseline = self.baseline
        return HostRow(
            *(*operands.shape, operands.dtype, operands.memory, baseline.name),
            seconds=median,
            turns=len(self.seconds),
            condition=condition,
            runs=[median],
            f=baseline.find_f(operands),
            limit_seconds=self.limit_seconds,
        )


class Rounds:
    """The products and baselines of one process.

    Args:
        order: What is measured.
        until: Value of time.perf_counter() at which it should end.

    Attributes:
        wrong: Baselines whose product was wrong, and where.
        left_out: Why products are not measured, by their names.
    """

    def __init__(self, order: Order, until: float) -> None:
        self._order, self._until = order, until
        self._baselines = list_baselines(order.gpus)
        self._limit = Limit(order.gpus) if order.gpus and order.checks else None
        self._before = np.ones((3, BEFORE_SIDE, BEFORE_SIDE), np.float32)
        self.wrong: list[str] = []
        self.left_out: dict[str, str] = {}
        self._pairs = [pair for one in order.products for pair in self._open(Product(*one))]

    def measure(self) -> Iterator[HostRow]:
        """The rows of all conditions."""
        for index, condition in enumerate(self._order.conditions):
            left = len(self._order.conditions) - index
            now = time.perf_counter()
            until = now + (self._until - now) / left
            with ExitStack() as stack:
                if condition == "busy":
                    stack.enter_context(burn_cores(usable_cores()))
                self._take_rounds(condition, until)
            for pair in self._pairs:
                yield pair.make_row(condition)

    def _open(self, product: Product) -> Iterator[Pair]:
        """Draw a product's operands, and let each baseline multiply them for the first time."""
        drawn = draw_operands(product.shape, product.dtype)
        check = FreivaldsCheck(drawn) if self._order.checks else None
        limit_seconds = self._limit.find_seconds(drawn) if self._limit else None
        for operands in (drawn, pin_operands(drawn)) if self._order.gpus else (drawn,):
            for baseline in self._baselines:
                # Page-locked memory makes no difference to NumPy.
                if operands.memory == "pinned" and baseline.name == NUMPY:
                    continue
                pair = Pair(baseline, operands, limit_seconds)
                poison(operands.c)
                pair.take_turn()
                if baseline.name == NUMPY and self._leaves_out(product.name, pair.seconds[0]):
                    return
                if check is not None and not check.find_error(operands.c) <= 1:
                    self.wrong.append(f"{baseline.name} at {product.name} {operands.memory}")
                yield pair

    def _leaves_out(self, name: str, numpy_seconds: float) -> bool:
        """Whether a product takes the CPU too long; with half the time it may take twice as long.

        The first run decides, so that all have the same products.
        """
        longest_seconds = LONGEST_CPU_SECONDS * (2 if "half" in self._order.conditions else 1)
        if self._order.gpus or not self._order.checks or numpy_seconds <= longest_seconds:
            return False
        self.left_out[name] = f"it takes NumPy {numpy_seconds:.1f} s"
        return True

    def _take_rounds(self, condition: Condition, until: float) -> None:
        longest_seconds = 0.0
        for pair in self._pairs:
            pair.seconds, pair.is_slow = [], False
        for turn in range(self._order.rounds):
            began = time.perf_counter()
            if turn and began + longest_seconds > until:
                break
            self._rest()
            for pair in self._list_turns(turn, condition):
                if condition == "after-numpy":
                    self._multiply_before()
                pair.take_turn()
                if condition != "after-numpy" and pair.baseline.name == NUMPY:
                    time.sleep(PAUSE_SECONDS)  # its threads spin, and would disturb the next one
            if turn == 0:
                self._find_slow()
            longest_seconds = max(longest_seconds, time.perf_counter() - began)

    def _list_turns(self, turn: int, condition: Condition) -> list[Pair]:
        """The pairs of a round, in a random order."""
        pairs = [
            pair
            for index, pair in enumerate(self._pairs)
            if turn == 0 or not pair.is_slow or (turn + index) % EVERY == 0
        ]
        random.Random(f"{self._order.seed} {condition} {turn}").shuffle(pairs)
        return pairs

    def _find_slow(self) -> None:
        fastest: dict[Operands, float] = {}
        for pair in self._pairs:
            seconds = fastest.get(pair.operands, SLOW_SECONDS)
            fastest[pair.operands] = min(seconds, pair.seconds[0])
        for pair in self._pairs:
            far_seconds = max(QUICK_SECONDS, FAR_RATIO * fastest[pair.operands])
            pair.is_slow = pair.seconds[0] > min(SLOW_SECONDS, far_seconds)

    def _multiply_before(self) -> None:
        a, b, c = self._before
        np.matmul(a, b, out=c)

    def _rest(self) -> None:
        """Wait until NumPy's threads sleep, and let the GPUs' clocks rise."""
        time.sleep(PAUSE_SECONDS)
        for device in range(self._order.gpus):
            wake_gpu(device)


class Limit:
    """The least times of the first GPUs alone; their links are measured once.

    Args:
        gpus: How many.
    """

    def __init__(self, gpus: int) -> None:
        self._gpus = gpus
        self._rates = measure_joint_rates(range(gpus), _LINK_BYTES, _LINK_TURNS)

    def find_seconds(self, operands: Operands) -> float:
        """The longest of cuBLAS with operands on the GPU, copying in and copying out.

        Each operand crosses the links once, from page-locked memory.
        """
        in_seconds = (operands.a.nbytes + operands.b.nbytes) / self._rates.in_bytes_per_second
        out_seconds = operands.c.nbytes / self._rates.out_bytes_per_second
        return max(measure_compute(operands) / self._gpus, in_seconds, out_seconds)


def measure_compute(operands: Operands) -> float:
    """Median seconds of cuBLAS at a product, its operands on the first GPU."""
    import cupy

    with TemporaryDirectory(prefix="wavetrim-") as folder:
        product = DeviceProduct(operands.a, operands.b, device_index=0, cache_dir=Path(folder))
        seconds = product.time_launches(find_kernel("cublas", operands.dtype), _LAUNCHES)
    del product
    cupy.get_default_memory_pool().free_all_blocks()
    return statistics.median(seconds)


def wake_gpu(device: int) -> None:
    """Multiply for some hundredths of a second."""
    import cupy

    until = time.perf_counter() + WAKE_SECONDS
    with cupy.cuda.Device(device):
        matrix = cupy.ones((WAKE_SIDE, WAKE_SIDE), "float32")
        while time.perf_counter() < until:
            cupy.dot(matrix, matrix)
            cupy.cuda.get_current_stream().synchronize()


def main() -> int:
    """Measure what the order on standard input says, and write the rows to standard output."""
    began = time.perf_counter()
    order = Order(**json.load(sys.stdin))
    try:
        rounds = Rounds(order, began + order.seconds)
    except ImportError as error:
        print(f"a peer is missing, so nothing is measured: {error}", file=sys.stderr)
        return 1
    rows = [asdict(row) for row in rounds.measure()]
    print(json.dumps({"rows": rows, "wrong": rounds.wrong, "left_out": rounds.left_out}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
