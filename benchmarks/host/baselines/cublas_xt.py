"""cublasXt, tuned for each product."""

import math
import multiprocessing
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Final

from benchmarks.common.freivalds import FreivaldsCheck
from benchmarks.common.operands import Matrix, Operands, draw_operands
from benchmarks.host.baselines.baseline import Baseline
from benchmarks.host.baselines.xt_library import XtError, XtHandle
from benchmarks.host.machine import BlasThreads

BLOCKS: Final = (4096, 2048, 8192, 1024)
"""Block sizes, the likely best first, because time may run out; chosen."""

CPU_RATIOS: Final = (0.05, 0.1, 0.2, 0.4)
_BRIEF_SECONDS: Final = 0.25
"""Shorter trials are repeated, because the first one allocates; chosen."""

_PROBE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class XtSettings:
    """Settings of cublasXt.

    Attributes:
        block: Side of the blocks that matrices are cut into.
        pinning: Whether it page-locks the matrices itself.
        cpu_ratio: The CPU's share of the product.
    """

    block: int
    pinning: bool = False
    cpu_ratio: float = 0.0


class CublasXt(Baseline):
    """`cublasXtSgemm` and `cublasXtDgemm` with the settings that are the fastest at each product.

    All block sizes are tried, with its own page-locking and without; then, with the best of them,
    larger and larger shares for the CPU until one is slower.

    Raises:
        XtError: cublasXt cannot be used.
        OSError: The library is not found.
        ImportError: There is no SciPy.
    """

    name = "cublasxt"
    groups: ClassVar = ("suite",)  # tuning it takes as long as all turns of the others

    def __init__(self, devices: Sequence[int], *, shares_with_cpu: bool) -> None:
        self._handle = XtHandle(devices)
        self._shares_with_cpu = shares_with_cpu
        if shares_with_cpu:
            for dtype in ("float32", "float64"):
                self._handle.set_cpu_routine(dtype)
        self._blas = BlasThreads()
        self._settings = XtSettings(BLOCKS[0])
        self._tried = 0
        self._refusal: XtError | None = None

    def prepare(self, operands: Operands, until: float) -> bool:
        """Find the best settings, or the best of those tried in time."""
        self._tried, self._refusal = 0, None
        best_seconds, best = math.inf, XtSettings(BLOCKS[0])
        for candidate in list_settings(max(operands.shape), operands.memory):
            if math.isfinite(best_seconds) and time.perf_counter() > until:
                break
            seconds = self._try(candidate, operands)
            if seconds < best_seconds:
                best_seconds, best = seconds, candidate
        if self._refusal is not None and not math.isfinite(best_seconds):
            raise self._refusal
        for ratio in CPU_RATIOS if self._shares_with_cpu else ():
            if time.perf_counter() > until:
                break
            candidate = replace(best, cpu_ratio=ratio)
            seconds = self._try(candidate, operands)
            if seconds >= best_seconds:
                break
            best_seconds, best = seconds, candidate
        self._apply(best, operands.dtype)
        return True

    def multiply(self, operands: Operands) -> Matrix:
        """A·B into C."""
        self._handle.multiply(operands)
        return operands.c

    @property
    def wakes_blas(self) -> bool:
        """Whether the CPU has a share."""
        return self._settings.cpu_ratio > 0

    @property
    def settings(self) -> dict[str, Any]:
        """The best settings, and the number of those tried."""
        return {**asdict(self._settings), "tried": self._tried}

    def _try(self, settings: XtSettings, operands: Operands) -> float:
        """Seconds with some settings; infinite if they are refused, as page-locking may be."""
        self._tried += 1
        try:
            self._apply(settings, operands.dtype)
            with self._blas.wake_all(wanted=settings.cpu_ratio > 0):
                seconds = self._time(operands)
                if seconds < _BRIEF_SECONDS:
                    seconds = min(seconds, self._time(operands))
        except XtError as error:
            self._refusal = error
            return math.inf
        return seconds

    def _time(self, operands: Operands) -> float:
        started = time.perf_counter()
        self._handle.multiply(operands)
        return time.perf_counter() - started

    def _apply(self, settings: XtSettings, dtype: str) -> None:
        self._handle.set_block(settings.block)
        self._handle.set_pinning(settings.pinning)
        if self._shares_with_cpu:
            self._handle.set_cpu_ratio(dtype, settings.cpu_ratio)
        self._settings = settings


def list_settings(largest: int, memory: str) -> Sequence[XtSettings]:
    """Settings without a share for the CPU that can differ in time at a product.

    All blocks larger than the product are equal. Matrices that are page-locked already must not be
    locked again.
    """
    covering = min((block for block in BLOCKS if block >= largest), default=max(BLOCKS))
    pinnings = (False,) if memory == "pinned" else (True, False)
    blocks = [block for block in BLOCKS if block <= covering]
    return [XtSettings(block, pinning) for block in blocks for pinning in pinnings]


def can_share_with_cpu(devices: Sequence[int]) -> bool:
    """Whether products with a share for the CPU are right.

    Tried in a process of its own, which may crash.
    """
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_probe_sharing, args=(devices,), daemon=True)
    process.start()
    process.join(_PROBE_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()
    return process.exitcode == 0


def _probe_sharing(devices: Sequence[int]) -> None:
    """Exit with 0 if a product in each element type is right."""
    for dtype in ("float32", "float64"):
        operands = draw_operands((1500, 1300, 1100), dtype)
        handle = XtHandle(devices)
        handle.set_block(512)
        handle.set_cpu_routine(dtype)
        handle.set_cpu_ratio(dtype, 0.2)
        handle.multiply(operands)
        if not FreivaldsCheck(operands).find_error(operands.c) <= 1.0:
            sys.exit(1)
        handle.close()
