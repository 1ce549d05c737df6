"""This product's executor: with F as the model chooses it, and each device alone."""

from typing import Any, Final, Literal

from benchmarks.contenders.contender import Contender
from benchmarks.operands import Matrix, Operands
from wavetrim.scheduler.execute import Executor, Timings
from wavetrim.scheduler.machine import MachineProfile
from wavetrim.scheduler.plan import Plan, choose_plan
from wavetrim.scheduler.wishes import RowsOrAuto, Wishes

Side = Literal["both", "gpu", "cpu"]

NAMES: Final[dict[Side, str]] = {"both": "wavetrim", "gpu": "wavetrim-gpu", "cpu": "wavetrim-cpu"}
_HOPELESS: Final = 4.0
"""The CPU alone stands aside where it should take so many times as long as the plan."""


class SplitExecutor(Contender):
    """`Executor.run` with a plan for each product.

    Args:
        executor: Runs the plans.
        profile: What they are chosen from.
        side: Who computes: both, as the model has it, or one device alone.
        sms: Multiprocessors that the GPU is held to; None for all.
    """

    def __init__(
        self, executor: Executor, profile: MachineProfile, side: Side, sms: int | None = None
    ) -> None:
        self.name = NAMES[side]
        self.sms = sms
        self._executor = executor
        self._profile = profile
        self._side = side
        self._plan: Plan | None = None
        self._timings: Timings | None = None

    def prepare(self, operands: Operands, until: float) -> bool:
        """Plan; the CPU alone takes part where it is not hopeless."""
        del until
        problem = operands.problem
        rows: dict[Side, RowsOrAuto] = {"both": "auto", "gpu": 0, "cpu": problem.m}
        wishes = Wishes(f=rows[self._side], sms=self.sms)
        self._plan = choose_plan(problem, self._profile, wishes)
        if self._side != "cpu" or self._profile.gpu is None:
            return True
        chosen = choose_plan(problem, self._profile, Wishes(sms=self.sms))
        limit = _HOPELESS * chosen.predicted.total_seconds
        return self._plan.predicted.total_seconds <= limit

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
