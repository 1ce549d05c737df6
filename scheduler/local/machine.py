"""The machine in a caller's own process: an executor, its profiles and plans."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from wavetrim.cpu.numpy_products import NumpyProducts
from wavetrim.cpu.threads import count_default_threads, hold_blas, usable_cores
from wavetrim.kernels.device import (
    DeviceInfo,
    explain_no_devices,
    list_devices,
    select_devices,
)
from wavetrim.kernels.transfer.pinned import is_pinned, pin_array
from wavetrim.scheduler.calibration.profiles import open_profiles
from wavetrim.scheduler.errors import ExecutionError, PlanError
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.local.own_turns import OwnTurns
from wavetrim.scheduler.options import NO_OPTIONS, PlanOptions
from wavetrim.scheduler.planning.cache import PlanCache
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.store import find_profile

Matrix = NDArray[Any]

_MOST_SHAPES: Final = 1024
"""Shapes of products that are remembered as NumPy's; chosen, to bound host memory."""


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """The devices, memory and folders that the process may use.

    Attributes:
        cache_dir: Folder of compiled kernels and compiled C.
        profile_dir: Folder of stored calibrations; None for none.
        devices: GPUs to use: "none", or indices such as "0,1"; None for all.
        cpu_threads: Threads of the CPU part; None for `count_default_threads()`.
        gpu_memory_bytes: Limit of GPU memory; None for all free memory.
        memory_bytes: Memory that the machine has; None where the system does not tell.
        ends: Whether the interpreter exits: neither threads nor GPUs are used.
    """

    cache_dir: Path
    profile_dir: Path | None = None
    devices: str | None = None
    cpu_threads: int | None = None
    gpu_memory_bytes: int | None = None
    memory_bytes: int | None = None
    ends: bool = False

    def count_threads(self) -> int:
        """Threads of the CPU part."""
        return 1 if self.ends else self.cpu_threads or count_default_threads()


def find_gpus(choice: str | None) -> tuple[DeviceInfo, ...]:
    """The GPUs to use, as `select_devices`.

    Raises:
        PlanError: One that is listed is not there.
    """
    found = select_devices(choice)
    if choice in (None, "none") or len(found) == len(choice.split(",")):
        return found
    here = ", ".join(f"{info.index} ({info.uuid}, {info.name})" for info in list_devices())
    limit = f'"none", or GPUs that are here: {here or explain_no_devices()}'
    raise PlanError("WAVETRIM_DEVICES", choice, limit)


class LocalMachine:
    """Plans and runs products. Thread-safe.

    Args:
        options: Devices, memory and folders.

    Attributes:
        has_gpu: Whether there is a usable GPU.
    """

    def __init__(self, options: LocalOptions) -> None:
        self._ends = options.ends
        self._choice = options.devices
        self._executor = Executor(
            cache_dir=options.cache_dir,
            devices=() if options.ends else find_gpus(options.devices),
            cpu_threads=options.count_threads(),
            gpu_memory_bytes=options.gpu_memory_bytes,
            lends_blas=True,
        )
        self._turn = threading.RLock()  # a signal handler may fork
        self._is_running = False
        self._profiles = open_profiles(self._executor, options.profile_dir, turn=self._turn)
        self._plans = PlanCache(prepare=self._prepare)
        self.has_gpu = self._executor.pipeline is not None
        # At the end NumPy has all products that it can compute: no C can be loaded then.
        self._numpy = NumpyProducts(usable_cores() if options.ends else self._executor.pool.threads)
        self._of_numpy: dict[tuple[Any, ...], tuple[int, int]] = {}  # to the shape of the result
        self._own_turns = OwnTurns()
        self._closing = threading.Event()

    def find_profile(self, *, cpu_only: bool = False) -> MachineProfile:
        """The profile of this machine, or of its CPU alone."""
        return self._profiles.find("cpu" if cpu_only else None)

    def make_array(self, shape: tuple[int, ...], dtype: str) -> Matrix:
        """A new row-major array, in page-locked memory if there is a GPU.

        Raises:
            DeviceFailure: The memory cannot be page-locked.
        """
        return pin_array(shape, dtype) if self.has_gpu else np.empty(shape, dtype)

    def choose_plan(self, problem: GemmProblem, options: PlanOptions, device: str | None) -> Plan:
        """The plan of a product on this machine.

        Args:
            problem: The product.
            options: Options of the plan.
            device: "cpu" or "gpu" to compute all rows there, unless F is given; None for the best.

        Raises:
            PlanError: An option cannot be met, or the device does not exist.
        """
        if device == "cpu" and options.devices not in (None, "none"):
            raise PlanError("devices", options.devices, 'None or "none" beside device "cpu"')
        if self._ends:
            options = NO_OPTIONS
        if device == "cpu" or not self.has_gpu:
            return self._plans.choose(problem, self._cpu_profile, options)
        profile = self._profiles.find()
        if device is None or options.f != "auto":
            plan = self._plans.choose(problem, profile, options)
            return plan if options.f != "auto" else self._adapt(plan, options)
        plan = self._plans.choose(problem, profile, options)
        if plan.no_gpu_reason is not None:
            raise PlanError("device", device, f'None or "cpu": {plan.no_gpu_reason}')
        return self._plans.choose(problem, profile, replace(options, f=0))

    def _adapt(self, plan: Plan, options: PlanOptions) -> Plan:
        """The plan, or another one for its product while other threads want the cores."""
        numpy_has_cores = not self._numpy.is_crowded
        if numpy_has_cores and not self._executor.is_crowded:
            return plan
        f = plan.find_crowded_f(numpy_has_cores=numpy_has_cores)
        if f == plan.f:
            return plan
        return self._plans.choose(plan.problem, plan.profile, replace(options, f=f))

    def _prepare(self, plan: Plan) -> None:
        """Prepare for a plan that was made anew: it may give NumPy's products to a GPU."""
        self._executor.compile(plan)
        self._of_numpy.clear()

    @cached_property
    def _cpu_profile(self) -> MachineProfile:
        """An estimated profile: if the CPU computes all rows, no plan depends on its speed."""
        return find_profile(
            "cpu", devices=(), directory=None, cpu_threads=self._executor.pool.threads
        )

    def check_device(self, device: str | None) -> None:
        """Check that a device belongs to this machine.

        Raises:
            PlanError: It is not None, "cpu" or "gpu", or there is no GPU.
        """
        if device not in (None, "cpu", "gpu"):
            limit = 'None, "cpu" or "gpu", of this machine; others can be planned for only'
            raise PlanError("device", device, limit)
        if device == "gpu" and not self.has_gpu:
            reason = "the interpreter exits" if self._ends else explain_no_devices(self._choice)
            raise PlanError("device", device, f'None or "cpu": {reason}')

    def run(
        self, plan: Plan, a: Matrix, b: Matrix, c: Matrix, *, alpha: float, beta: float
    ) -> None:
        """C ← αA·B + βC as the plan divides it, one product at a time.

        Raises:
            ExecutionError: A device failed, the interpreter exits, or this thread is in a product,
                which a signal handler or a finalizer has interrupted.
        """
        try:
            with self._turn:
                self._refuse_nested()
                self._is_running = True
                try:
                    self._executor.run(
                        plan, a, b, c, alpha=alpha, beta=beta, cancelled=self._closing.is_set
                    )
                except BaseException:
                    # Ctrl-C comes at any moment, also between taking a lock and noting that.
                    self._executor.free_devices()
                    hold_blas.end()
                    raise
                finally:
                    self._is_running = False
        except BaseException:
            if self._closing.is_set():
                end_with_interpreter()
            raise

    def suits_numpy(self, problem: GemmProblem, dtype: np.dtype[Any]) -> bool:
        """Whether NumPy is to compute a large product of the CPU alone.

        Threads of BLAS that spin afterwards take the cores from copies to a GPU, so where there is
        one NumPy computes it only while others have the cores: most often BLAS's own threads.
        """
        if self.has_gpu and not (self._executor.is_crowded or self._numpy.is_crowded):
            return False
        return self._numpy.suit(problem.m, problem.n, problem.k, dtype)

    def multiply_by_numpy(self, a: Matrix, b: Matrix, c: Matrix) -> None:
        """C ← A·B by NumPy, beside products of other threads unless the machine is crowded."""
        if not self._numpy.is_crowded:
            with self._own_turns.find():
                self._numpy.multiply(a, b, c)
            return
        with self._turn:
            try:
                self._numpy.multiply_alone(a, b, c)
            except BaseException:
                hold_blas.end()
                raise

    def remember(self, a: Matrix, b: Matrix) -> None:
        """Let the next product of equal operands, without any options, take a short way to NumPy.

        A program that multiplies more than one shape has little of the planner's code and data in
        the CPU's caches, so that to find a plan takes about as long as a product of 64³.
        """
        if a.ndim == b.ndim == 2 and len(self._of_numpy) < _MOST_SHAPES:
            self._of_numpy[_describe(a, b)] = a.shape[0], b.shape[1]

    def multiply_again(self, a: Any, b: Any, out: Any) -> Matrix | None:
        """A·B by NumPy if it computed a product of such operands before; None if not.

        Also None while others want the cores, for page-locked operands, and for an `out` that does
        not fit or is not row-major: then the product is to be planned.
        """
        if not type(a) is type(b) is np.ndarray or not (out is None or type(out) is np.ndarray):
            return None
        shape = self._of_numpy.get(_describe(a, b))
        if shape is None or self._numpy.is_crowded or (self.has_gpu and is_pinned(a)):
            return None
        if out is None:
            out = np.empty(shape, a.dtype)
        elif not (out.shape == shape and out.dtype is a.dtype and out.flags.carray):
            return None
        result: Matrix = out
        with self._own_turns.find():
            self._numpy.multiply(a, b, result)
        return result

    def _refuse_nested(self) -> None:
        if self._is_running:  # by this thread, which has the turn
            raise ExecutionError("a product of this thread is running, and has to end first")

    def find_own_turn(self) -> AbstractContextManager[bool]:
        """The calling thread's turn, to be held while it calls BLAS beside other products."""
        return self._own_turns.find()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Let nothing be computed until the block ends."""
        with self._turn, self._own_turns.take_all():
            yield

    def close(self) -> None:
        """Cancel the running product, end the threads and free memory."""
        self._closing.set()
        self._plans.close()
        with self._turn:
            self._executor.close()
        self._profiles.save_runs()


def _describe(a: Matrix, b: Matrix) -> tuple[Any, ...]:
    return a.shape, b.shape, a.strides, b.strides, a.dtype, b.dtype


def end_with_interpreter() -> NoReturn:
    """Refuse a product that was cut off because the interpreter exits.

    A daemon thread waits here until the process ends: its error would only be printed.

    Raises:
        ExecutionError: In any other thread.
    """
    if threading.current_thread().daemon:
        threading.Event().wait()
    raise ExecutionError("the interpreter exits, and wavetrim's threads have ended")
