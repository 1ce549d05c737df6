"""The teams of an executor's GPUs: the GPUs of a plan, which compute its products together."""

from collections.abc import Sequence

from wavetrim.kernels.pipeline.pipeline import GpuPipeline
from wavetrim.kernels.pipeline.team import Team, TeamPart
from wavetrim.scheduler.execution.decision_cache import DecisionCache
from wavetrim.scheduler.planning.plan import Plan


class Teams:
    """The teams of an executor's GPUs: one for each plan, kept for its next product."""

    def __init__(self, pipelines: Sequence[GpuPipeline]) -> None:
        self.pipelines = pipelines
        self._kept = DecisionCache[Team]()

    def find(self, plan: Plan) -> Team:
        """The team of a plan."""
        kept = self._kept.find(plan)
        if kept is not None:
            return kept
        parts = [
            TeamPart(self.pipelines[part.position], part.rows, part.columns, part.cut)
            for part in plan.gpu_parts
        ]
        team = Team(parts, exchanges=plan.exchanges)
        self._kept.keep(plan, team)
        return team
