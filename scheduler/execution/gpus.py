"""The GPUs of an executor: a pipeline and a thread for each, and what stays on them."""

from collections.abc import Sequence
from concurrent.futures import wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, NamedTuple

from wavetrim.kernels.device import DeviceInfo
from wavetrim.kernels.errors import DeviceFailure
from wavetrim.kernels.last_used import LastUsed
from wavetrim.kernels.pipeline.command_product import CommandProduct
from wavetrim.kernels.pipeline.host_product import NO_GPU_HOOKS, GpuHooks, GpuTimings, HostProduct
from wavetrim.kernels.pipeline.pipeline import GpuPipeline
from wavetrim.kernels.pipeline.resident_cache import Resident
from wavetrim.kernels.pipeline.straight import StraightProduct
from wavetrim.kernels.pipeline.team import Team, TeamPart
from wavetrim.native.call_threads import CallThreads
from wavetrim.native.plain import Matrix
from wavetrim.scheduler.errors import raise_translated
from wavetrim.scheduler.execution.pages import LEAST_BYTES
from wavetrim.scheduler.execution.rows import NO_HOOKS, Hooks, RowReports
from wavetrim.scheduler.execution.watchdog import Watchdog, Watched
from wavetrim.scheduler.planning.plan import Plan

_KEPT: Final = 512
"""Plans whose teams are kept; chosen, to bound host memory."""

_LEAST_RATE: Final = 1e9
"""Slowest link that the watchdog accepts, in bytes a second; chosen."""


NOTHING: Final = nullcontext()
"""A context that does nothing; made once, because that time matters to short products."""


class PlannedProduct(NamedTuple):
    """C ← αA·B + βC and how it is run: the arguments of `Executor.run`, which describes them.

    A named tuple, because passing many arguments takes time that matters to short products.
    """

    plan: Plan
    a: Matrix
    b: Matrix
    c: Matrix
    alpha: float
    beta: float
    hooks: Hooks = NO_HOOKS
    timed: bool = False
    b_key: str | None = None

    def take_gpu_rows(
        self, hooks: GpuHooks = NO_GPU_HOOKS, resident_b: Resident | None = None
    ) -> HostProduct:
        """The rows of all GPUs, with what they call, and B if it is on the GPU."""
        plan, a, c = self.plan, self.a, self.c
        assert plan.spec is not None, "a plan with GPU rows names a kernel"
        if plan.f:
            a, c = a[: plan.gpu_rows], c[: plan.gpu_rows]
        return HostProduct(
            plan.spec, a, self.b, c, self.alpha, self.beta, hooks, resident_b, self.timed, plan.sms
        )


class Gpus:
    """The GPUs of an executor, at the positions that plans name. Thread-safe.

    Its arguments are those of `Executor`.

    Attributes:
        pipelines: One for each GPU.
        threads: One for each GPU. Always the same: CUDA libraries create a handle for each thread,
            which is slow.
    """

    def __init__(
        self,
        devices: Sequence[DeviceInfo],
        *,
        cache_dir: Path,
        memory_bytes: int | None,
        watchdog: Watchdog | None,
    ) -> None:
        self.pipelines = tuple(
            GpuPipeline(device.index, cache_dir=cache_dir, gpu_memory_bytes=memory_bytes)
            for device in devices
        )
        self.threads = tuple(
            CallThreads(1, f"gpu-part-{position}") for position in range(len(devices))
        )
        self._watchdog = watchdog
        self._teams = LastUsed[int, tuple[Plan, Team]](_KEPT)

    def watch(self, expected_seconds: float) -> AbstractContextManager[Watched | None]:
        """Let the watchdog, if there is one, watch a part of a product while the block runs."""
        return self._watchdog.watch(expected_seconds) if self._watchdog else NOTHING

    def load(self, plan: Plan) -> None:
        """Load a plan's kernel; compile it if it is not in the cache."""
        for part in plan.gpu_parts:
            assert plan.spec is not None, "a plan with GPU rows names a kernel"
            self.pipelines[part.position].load(plan.spec, sms=plan.sms)

    def find_straight(
        self, plan: Plan, alpha: float, beta: float, *, is_crowded: bool | None = None
    ) -> StraightProduct | None:
        """The product of a plan that takes the straight path; None if another path is faster.

        Pageable operands take it on a crowded machine, too: threads that stage find no cores.
        `is_crowded` says whether others want the cores; None to ask now.
        """
        if not plan.is_gpu_alone or plan.sms is not None:
            return None
        (part,), problem, spec = plan.gpu_parts, plan.problem, plan.spec
        assert spec is not None, "a plan with GPU rows names a kernel"
        pipeline = self.pipelines[part.position]
        if not plan.is_straight:
            if not (spec.is_cublas and plan.may_copy_by_driver):
                return None
            if not (pipeline.find_crowd() != "quiet" if is_crowded is None else is_crowded):
                return None
        return pipeline.straight.find(spec, (problem.m, problem.n, problem.k), alpha, beta)

    def find_product(
        self, plan: Plan, alpha: float, *, is_crowded: bool
    ) -> StraightProduct | CommandProduct | None:
        """The product of a plan without the checks and notes that `Executor.run` makes.

        None where it needs other GPUs or the CPU, or may need pages for C. `is_crowded` is as for
        `find_straight`.
        """
        straight = self.find_straight(plan, alpha, 0.0, is_crowded=is_crowded)
        if straight is not None or not plan.is_gpu_alone or plan.sms is not None:
            return straight
        (part,), problem, spec = plan.gpu_parts, plan.problem, plan.spec
        assert spec is not None, "a plan with GPU rows names a kernel"
        pipeline, is_pageable = self.pipelines[part.position], problem.memory == "pageable"
        may_lack_pages = is_pageable and problem.m * problem.c_row_bytes >= LEAST_BYTES
        if pipeline.path is None or may_lack_pages:
            return None
        shape = problem.m, problem.n, problem.k
        return CommandProduct(
            pipeline, spec, shape, part.cut, alpha=alpha, beta=0.0, is_staged=is_pageable
        )

    def find_team(self, plan: Plan) -> Team:
        """The GPUs of a plan as a team, kept for the plan's next product.

        It is found by identity: to compare plans takes longer than to enqueue a small product.
        """
        kept = self._teams.find(id(plan))
        if kept is not None:
            return kept[1]
        parts = [
            TeamPart(self.pipelines[part.position], part.rows, part.columns, part.cut)
            for part in plan.gpu_parts
        ]
        team = Team(parts, exchanges=plan.exchanges)
        self._teams.keep(id(plan), (plan, team))  # which keeps its id from another plan
        return team

    def compute_alone(self, product: PlannedProduct) -> GpuTimings:
        """Compute all rows on one GPU, in the calling thread: another would take 0.1 ms longer."""
        plan = product.plan
        position = plan.gpu_parts[0].position
        pipeline = self.pipelines[position]
        with self.watch(plan.uncorrected.total_seconds) as watched:
            hooks = NO_GPU_HOOKS
            if product.hooks is not NO_HOOKS or (watched is not None and not plan.is_short):
                reports = RowReports(plan.problem.m, product.hooks)
                hooks = reports.open_gpu(0, watched=watched)
                hooks = hooks._replace(cancelled=product.hooks.cancelled)
            rows = product.take_gpu_rows(hooks, pipeline.residents.use(product.b_key))
            return pipeline.multiply(rows, plan.gpu_parts[0].cut)

    def find_holders(self, key: str) -> list[int]:
        """The positions of the GPUs that have this B."""
        return [one for one, pipeline in enumerate(self.pipelines) if key in pipeline.residents]

    @property
    def resident_limit(self) -> int:
        """Bytes of the largest B that each of the GPUs may keep."""
        return min(pipeline.residents.limit_bytes for pipeline in self.pipelines)

    def keep(self, key: str, b: Matrix, positions: Sequence[int]) -> bool:
        """Copy B to some GPUs, each over its own link; as `GpuPipeline.keep`.

        Returns:
            Whether it is on all of them.

        Raises:
            ExecutionError: A device failed.
        """
        keeping = [self.threads[one].submit(self._keep_on, one, key, b) for one in positions]
        wait(keeping)  # B is read until the last one ends
        try:
            return all(one.result() for one in keeping)
        except DeviceFailure as error:
            raise_translated(error)

    def _keep_on(self, position: int, key: str, b: Matrix) -> bool:
        """Copy B to a GPU, in its thread; the watchdog allows for the copy's time."""
        with self.watch(b.nbytes / _LEAST_RATE):
            return self.pipelines[position].keep(key, b)

    def forget(self, key: str) -> None:
        """Drop a B: its matrix was deleted, or the copy may be wrong."""
        for pipeline in self.pipelines:
            pipeline.residents.forget(key)

    def describe_residents(self) -> list[dict[str, Any]]:
        """Memory and counts of the B matrices on each GPU; JSON-ready."""
        return [
            {"index": pipeline.device_index, **asdict(pipeline.residents.count())}
            for pipeline in self.pipelines
        ]

    def close(self) -> None:
        """End the threads, and free streams and memory."""
        for thread in self.threads:
            thread.close()
        for pipeline in self.pipelines:
            pipeline.close()
