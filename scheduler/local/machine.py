"""This machine as a process of the caller's uses it: an executor, its profile, its plans."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from wavetrim.cpu.threads import usable_cores
from wavetrim.kernels.device import explain_no_devices, select_devices
from wavetrim.kernels.transfer.pinned import pin_array
from wavetrim.scheduler.calibration.cpu import measure_cpu_briefly
from wavetrim.scheduler.errors import ExecutionError, PlanError
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.cache import PlanCache
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.provider import ProfileProvider
from wavetrim.scheduler.profile.store import find_profile

Matrix = NDArray[Any]


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """What the process may use, and where it keeps what it compiles.

    Attributes:
        cache_dir: Folder of compiled kernels, and of compiled C.
        profile_dir: Folder of stored calibrations; None for none.
        devices: GPUs to use: "none", or indices such as "0,1"; None for all.
        cpu_threads: Threads of the CPU part; None for all usable cores.
        gpu_memory_bytes: GPU memory to stay within; None for what is free.
    """

    cache_dir: Path
    profile_dir: Path | None = None
    devices: str | None = None
    cpu_threads: int | None = None
    gpu_memory_bytes: int | None = None
    explore: bool = True

    def count_threads(self) -> int:
        """Threads of the CPU part."""
        return self.cpu_threads or usable_cores()


class LocalMachine:
    """Plans and runs products. Safe to use from several threads.

    Args:
        options: What may be used.

    Attributes:
        has_gpu: Whether there is a GPU to use.
    """

    has_gpu: bool

    def __init__(self, options: LocalOptions) -> None:
        self._executor = Executor(
            cache_dir=options.cache_dir,
            devices=select_devices(options.devices),
            cpu_threads=options.cpu_threads,
            gpu_memory_bytes=options.gpu_memory_bytes,
            lends_blas=True,
        )
        self._profiles = ProfileProvider(
            devices=self._executor.devices,
            directory=options.profile_dir,
            cpu_threads=self._executor.pool.threads,
            measure_cpu=lambda: measure_cpu_briefly(self._executor.pool),
        )
        self._plans = PlanCache(explores=options.explore)
        self.has_gpu = self._executor.pipeline is not None
        self._turn = threading.Lock()
        self._closing = threading.Event()

    def find_profile(self, *, cpu_only: bool = False) -> MachineProfile:
        """What plans for this machine, or for its CPU alone, are decided from."""
        return self._profiles.find("cpu" if cpu_only else None)

    def make_array(self, shape: tuple[int, ...], dtype: str) -> Matrix:
        """A new row-major array: in page-locked memory where there is a GPU.

        Raises:
            DeviceFailure: There is not that much memory to lock.
        """
        return pin_array(shape, dtype) if self.has_gpu else np.empty(shape, dtype)

    def choose_plan(self, problem: GemmProblem, options: PlanOptions, device: str | None) -> Plan:
        """The plan of a product here.

        Args:
            problem: The product.
            options: What is not left to the planner.
            device: "cpu" or "gpu" for all rows there, unless F is given; None for the best.

        Raises:
            PlanError: An option cannot be met, or there is no such device.
        """
        if device == "cpu" or not self.has_gpu:
            return self._plans.choose(problem, self._cpu_profile, options)
        profile = self._profiles.find()
        if device is None or options.f != "auto":
            return self._plans.choose_next(problem, profile, options)
        plan = self._plans.choose(problem, profile, options)
        if plan.no_gpu_reason is not None:
            raise PlanError("device", device, f'None or "cpu": {plan.no_gpu_reason}')
        return self._plans.choose(problem, profile, replace(options, f=0))

    @cached_property
    def _cpu_profile(self) -> MachineProfile:
        """Where the CPU computes every row, no plan depends on how fast it is."""
        return find_profile(
            "cpu", devices=(), directory=None, cpu_threads=self._executor.pool.threads
        )

    def check_device(self, device: str | None) -> None:
        """Refuse a device that is not this machine's.

        Raises:
            PlanError: It is none of None, "cpu" and "gpu", or there is no GPU.
        """
        if device not in (None, "cpu", "gpu"):
            limit = 'None, "cpu" or "gpu", of this machine; others can be planned for only'
            raise PlanError("device", device, limit)
        if device == "gpu" and not self.has_gpu:
            raise PlanError("device", device, f'None or "cpu": {explain_no_devices()}')

    def run(
        self, plan: Plan, a: Matrix, b: Matrix, c: Matrix, *, alpha: float, beta: float
    ) -> None:
        """C ← αA·B + βC as the plan divides it, one product at a time.

        Raises:
            ExecutionError: A device failed, or the interpreter exits.
        """
        try:
            with self._turn:
                self._executor.run(
                    plan, a, b, c, alpha=alpha, beta=beta, cancelled=self._closing.is_set
                )
        except BaseException:
            if self._closing.is_set():
                end_with_interpreter()
            raise

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Let no product run: those that were asked for wait until the block ends."""
        with self._turn:
            yield

    def close(self) -> None:
        """Stop the product that runs, and give back threads and memory."""
        self._closing.set()
        with self._turn:
            self._executor.close()
        self._profiles.save_runs()


def end_with_interpreter() -> NoReturn:
    """Refuse to begin a product when the machine has been closed, as the interpreter exits.

    A daemon thread stays here: it ends with the process, and has nobody to tell of an error.

    Raises:
        ExecutionError: In any other thread.
    """
    if threading.current_thread().daemon:
        threading.Event().wait()
    raise ExecutionError("the interpreter exits, and wavetrim's threads have ended")
