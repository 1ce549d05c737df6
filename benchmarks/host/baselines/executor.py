"""This product's executor: as users run it, from a preset alone, and each device alone."""

from typing import Any

from benchmarks.common.operands import Matrix, Operands
from benchmarks.host.baselines.baseline import Baseline
from wavetrim.scheduler.execution.executor import Executor, Timings
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.plan import Plan, choose_plan
from wavetrim.scheduler.profile.machine import MachineProfile


class SplitExecutor(Baseline):
    """`Executor.run` with a plan for each product, held to `options`."""

    def __init__(
        self,
        name: str,
        executor: Executor,
        profile: MachineProfile,
        options: PlanOptions | None = None,
    ) -> None:
        self.name = name
        self._executor = executor
        self._profile = profile
        self._options = options or PlanOptions()
        self._plan: Plan | None = None
        self._timings: Timings | None = None

    def prepare(self, operands: Operands, until: float) -> bool:
        """Plan."""
        del until
        self._plan = choose_plan(operands.problem, self._profile, self._options)
        return True

    def multiply(self, operands: Operands) -> Matrix:
        """Run the plan into C."""
        assert self._plan is not None, "prepare comes before multiply"
        self._timings = self._executor.run(self._plan, operands.a, operands.b, operands.c)
        return operands.c

    @property
    def rows_on_cpu(self) -> tuple[int | None, int | None]:
        """The plan's F, and where the parts met."""
        if self._plan is None or self._timings is None:
            return None, None
        return self._plan.f, self._timings.f_actual

    @property
    def settings(self) -> dict[str, Any] | None:
        """The plan's kernel and prediction."""
        if self._plan is None:
            return None
        spec = self._plan.spec
        return {
            "kernel": None if spec is None else f"{spec.name} {spec.tile}",
            "predicted_seconds": self._plan.predicted.total_seconds,
        }
