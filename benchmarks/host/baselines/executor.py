"""wavetrim's executor: as users run it, from a preset alone, and on one device alone."""

import statistics
from dataclasses import replace
from typing import Any

from benchmarks.common.operands import Matrix, Operands
from benchmarks.host.baselines.baseline import Baseline
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.execution.timings import Timings
from wavetrim.scheduler.model.corrections import Correction, RunClass
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.profile.history import RunHistory
from wavetrim.scheduler.profile.machine import MachineProfile


class Learner:
    """Learns corrections as if each product had run once, without showing them to plans."""

    def __init__(self) -> None:
        self._history = RunHistory(None, basis="this run")
        self._ratios: dict[RunClass, list[float]] = {}
        self.products = 0

    def find(self, run_class: RunClass) -> Correction:
        """No correction."""
        return Correction(run_class)

    def has_run(self, run_class: RunClass) -> bool:
        """False, so that earlier runs do not influence plans."""
        del run_class
        return False

    def list_all(self) -> list[Correction]:
        """An empty list."""
        return []

    def note(self, run_class: RunClass, predicted_seconds: float, measured_seconds: float) -> None:
        """Record one of a product's turns."""
        self._ratios.setdefault(run_class, []).append(measured_seconds / predicted_seconds)

    def learn(self) -> None:
        """Count the turns so far as one run."""
        for run_class, ratios in self._ratios.items():
            self._history.note(run_class, 1.0, statistics.median(ratios))
        self.products += bool(self._ratios)
        self._ratios.clear()

    def correct(self, plan: Plan) -> float:
        """The plan's prediction, corrected by earlier products; in splits by the factors' mean."""
        factors = [self._history.find(one.run_class).factor for one in plan.corrections]
        return plan.predicted.total_seconds * statistics.fmean(factors)


class SplitExecutor(Baseline):
    """`Executor.run` with a plan for each product, by `options`.

    With a `learner`, the settings have the prediction that corrections would have given, too.
    """

    def __init__(
        self,
        name: str,
        executor: Executor,
        profile: MachineProfile,
        options: PlanOptions | None = None,
        learner: Learner | None = None,
    ) -> None:
        self.name = name
        self._executor = executor
        self._profile = replace(profile, corrections=learner) if learner else profile
        self._learner = learner
        self._options = options or PlanOptions()
        self._plan: Plan | None = None
        self._timings: Timings | None = None

    def prepare(self, operands: Operands, until: float) -> bool:
        """Plan the product."""
        del until
        self._plan = choose_plan(operands.problem, self._profile, self._options)
        self._learned: dict[str, float] = {}
        if self._learner is not None:
            self._learner.learn()
            self._learned = {
                "learned_seconds": self._learner.correct(self._plan),
                "products_before": self._learner.products,
            }
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
            "gpus": len(self._plan.gpu_parts),
            "predicted_seconds": self._plan.predicted.total_seconds,
            **self._learned,
        }


class RelayedExecutor(SplitExecutor):
    """The same with relays; takes part only in products whose plan has some."""

    def prepare(self, operands: Operands, until: float) -> bool:
        """Plan the product; False without relays."""
        return super().prepare(operands, until) and bool(self._plan and self._plan.relays)
