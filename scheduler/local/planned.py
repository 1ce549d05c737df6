"""Products that are planned: an executor, its profiles and plans, for a caller's own process."""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from wavetrim.cpu.threads import blas_limit
from wavetrim.native.plain import Matrix
from wavetrim.native.pool import Crowd
from wavetrim.scheduler.calibration.cpu import open_profiles
from wavetrim.scheduler.errors import ExecutionError, PlanError
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.product import raise_translated
from wavetrim.scheduler.execution.rows import NO_HOOKS, Hooks
from wavetrim.scheduler.local.known import UNSTOPPED_SECONDS
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import PlanCache
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.store import find_profile

if TYPE_CHECKING:
    from wavetrim.scheduler.local.machine import LocalMachine

T = TypeVar("T")


class PlannedProducts:
    """Plans and runs products of a machine, one at a time. Thread-safe.

    Attributes:
        executor: What runs them; only the running product may use it.
    """

    def __init__(self, machine: "LocalMachine") -> None:
        options = machine.options
        self._machine = machine
        self.executor = Executor(
            cache_dir=options.cache_dir,
            devices=machine.gpus if machine.has_gpu else (),
            cpu_threads=1 if machine.has_ended else options.count_threads(),
            gpu_memory_bytes=options.gpu_memory_bytes,
            lends_blas=True,
        )
        self._profiles = open_profiles(self.executor, options.profile_dir, lock=machine.lock)
        self._plans = PlanCache()
        self._hooks = Hooks(cancelled=lambda: machine.has_ended)
        self._is_running = False

    def find_profile(self, *, cpu_only: bool = False) -> MachineProfile:
        """The profile of this machine, or of its CPU alone."""
        return self._profiles.find("cpu" if cpu_only else None)

    def choose(
        self, problem: GemmProblem, options: PlanOptions, device: str | None, crowd: Crowd
    ) -> Plan:
        """The plan of a product on this machine.

        Args:
            problem: The product.
            options: Options of the plan.
            device: "cpu" or "gpu" to compute all rows there, unless F is given; None for the best.
            crowd: Who else wants the cores.

        Raises:
            PlanError: An option cannot be met, or the device does not exist.
        """
        if device == "cpu" and options.devices not in (None, "none"):
            raise PlanError("devices", options.devices, 'None or "none" beside device "cpu"')
        if device == "cpu" or not self._machine.has_gpu:
            return self._plans.choose(problem, self._cpu_profile, options)
        plan = self._plans.choose(problem, self._profiles.find(), options)
        if options.f != "auto":
            return plan
        if device is None:
            return self._adapt(plan, options, crowd)
        if plan.no_gpu_reason is not None:
            raise PlanError("device", device, f'None or "cpu": {plan.no_gpu_reason}')
        return self._plans.choose(problem, plan.profile, replace(options, f=0))

    def _adapt(self, plan: Plan, options: PlanOptions, crowd: Crowd) -> Plan:
        """The plan, or another one for its product while other threads want the cores."""
        if crowd == "quiet":
            return plan
        f = plan.find_crowded_f(numpy_has_cores=crowd == "contended")
        options = replace(options, f=f)
        if f == 0 and plan.may_copy_by_driver and options.accuracy != "strict":
            options = replace(options, kernel="cublas")  # the only one that the driver copies for
        elif f == plan.f:
            return plan
        return self._plans.choose(plan.problem, plan.profile, options)

    def is_current(self, plan: Plan) -> bool:
        """Whether the profile of a plan, and its corrections, are still those of its choice."""
        profile = plan.profile
        if plan.version != profile.corrections.version:
            return False
        return profile is self._cpu_profile or profile is self._profiles.find()

    @cached_property
    def _cpu_profile(self) -> MachineProfile:
        """An estimated profile: if the CPU computes all rows, no plan depends on its speed."""
        return find_profile(
            "cpu", devices=(), directory=None, cpu_threads=self.executor.pool.threads
        )

    def run(
        self, plan: Plan, a: Matrix, b: Matrix, c: Matrix, *, alpha: float, beta: float
    ) -> None:
        """C ← αA·B + βC as the plan divides it.

        Raises:
            ExecutionError: A device failed, the interpreter exits, or this thread is in a product,
                which a signal handler or a finalizer has interrupted.
        """
        hooks = NO_HOOKS if plan.uncorrected.total_seconds <= UNSTOPPED_SECONDS else self._hooks
        run = partial(self.executor.run, alpha=alpha, beta=beta, hooks=hooks)
        self.run_alone(run, plan, a, b, c)

    def run_alone(self, run: Callable[..., T], *arguments: Any) -> T:
        """Run a product, while no other one runs."""
        machine = self._machine
        try:
            with machine.lock:
                if self._is_running or machine.has_ended:  # by this thread, which has the turn
                    self._refuse()
                self._is_running = True
                try:
                    return run(*arguments)
                except BaseException as error:
                    # Ctrl-C comes at any moment, also between taking a lock and noting that.
                    self.executor.free_devices()
                    blas_limit.end()
                    raise_translated(error)
                finally:
                    self._is_running = False
        except BaseException:
            if machine.has_ended:
                end_with_interpreter()
            raise

    def _refuse(self) -> NoReturn:
        """Refuse a product now that this thread has the turn, which it then gives to others."""
        raise ExecutionError("a product of this thread is running, and has to end first")

    def close(self) -> None:
        """End the threads and free memory."""
        self.executor.close()


def end_with_interpreter() -> NoReturn:
    """Refuse a product that was cut off because the interpreter exits.

    A daemon thread waits here until the process ends: its error would only be printed.

    Raises:
        ExecutionError: In any other thread.
    """
    if threading.current_thread().daemon:
        threading.Event().wait()
    raise ExecutionError("the interpreter exits, and wavetrim's threads have ended")
