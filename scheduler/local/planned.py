"""Products that are planned: an executor, its profiles and plans, for a caller's own process."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from wavetrim.cpu.threads import blas_limit
from wavetrim.native.plain import Matrix
from wavetrim.native.pool import Crowd
from wavetrim.scheduler.calibration.cpu import open_profiles
from wavetrim.scheduler.errors import ExecutionError, PlanError, raise_translated
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.rows import NO_HOOKS, Hooks
from wavetrim.scheduler.local.known import UNSTOPPED_SECONDS
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import PlanCache
from wavetrim.scheduler.planning.cpu_rows import find_cpu_seconds
from wavetrim.scheduler.planning.gpu_rows import find_straight_seconds
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.machine import MachineProfile
from wavetrim.scheduler.profile.store import find_profile

if TYPE_CHECKING:
    from wavetrim.scheduler.local.machine import LocalMachine

T = TypeVar("T")

_CROWDED_STAGING: Final = 3
"""How many times as long staged copies take on a crowded machine. Chosen: those of 50 to 1100 MB
take 2.2 to 3.5 times as long on an H200 with 16 cores (f81e5f28)."""

_CROWDED_CPU: Final = 2
_LATE_SECONDS: Final = 5e-3
"""How many times as long the CPU's rows take beside as many other processes as cores, and how long
they wait for threads. Chosen: a thread loses its core for 3 to 4 ms at a time."""


class PlannedProducts:
    """Plans and runs products of a machine, one at a time. Thread-safe.

    Attributes:
        executor: What runs them; only the running product may use it.
    """

    def __init__(self, machine: "LocalMachine") -> None:
        options = machine.options
        self._machine = machine
        self.executor = Executor(
            cache_dir=options.kernel_cache_dir,
            devices=machine.gpus if machine.has_gpu else (),
            cpu_threads=1 if machine.has_ended else options.cpu_threads,
            gpu_memory_bytes=options.gpu_memory_bytes,
            lends_blas=True,
        )
        self._profiles = open_profiles(self.executor, options.profile_dir, machine.lock)
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
        f = find_crowded_f(plan, numpy_has_cores=crowd == "contended")
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
        except BaseException as error:
            if not machine.has_ended:
                raise
            machine.stop_daemon()  # else its error would be printed
            raise ExecutionError(
                "the interpreter exits, and wavetrim's threads have ended"
            ) from error

    def _refuse(self) -> NoReturn:
        """Refuse a product now that this thread has the turn, which it then gives to others."""
        raise ExecutionError("a product of this thread is running, and has to end first")

    def close(self) -> None:
        """End the threads and free memory."""
        self.executor.close()


def find_crowded_f(plan: Plan, *, numpy_has_cores: bool) -> int:
    """F while other threads want the cores: 0 or M, as a CPU part of a split would be late.

    Pageable operands are then copied by the driver, or by threads, three times as slowly. NumPy's
    product is as fast as ever if those threads are BLAS's own, which spin, and need not be woken.
    If they are of other processes, the CPU's rows take twice as long, and wait for threads that
    lost their cores.
    The model's seconds are compared: corrections are of runs that met any condition.

    Args:
        plan: The plan of the product while nobody else wants the cores.
        numpy_has_cores: Whether the threads are of this process.
    """
    problem, cpu = plan.problem, plan.profile.cpu
    if plan.side is None or plan.is_small:
        return problem.m
    gpu_seconds = plan.on_gpu.uncorrected.total_seconds
    if numpy_has_cores:  # its threads are awake
        cpu = replace(cpu, start_seconds=0.0)
    cpu_seconds = find_cpu_seconds(problem, cpu, problem.m)
    if plan.may_copy_by_driver:
        profile = plan.profile.gpus[plan.side.members[0].position]
        gpu_seconds = max(gpu_seconds, find_straight_seconds(problem, profile))
    elif problem.memory == "pageable":
        gpu_seconds *= _CROWDED_STAGING
    if not numpy_has_cores:
        cpu_seconds = _CROWDED_CPU * cpu_seconds + _LATE_SECONDS
    return problem.m if cpu_seconds <= gpu_seconds else 0
