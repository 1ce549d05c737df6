"""The teams of an executor's GPUs: the GPUs of a plan, which compute its products together."""

from collections.abc import Sequence
from typing import Final

from wavetrim.kernels.last_used import LastUsed
from wavetrim.kernels.pipeline.pipeline import GpuPipeline
from wavetrim.kernels.pipeline.team import Team, TeamPart
from wavetrim.scheduler.planning.plan import Plan

_KEPT: Final = 512
"""Plans whose teams are kept; chosen, to bound host memory."""


class Teams:
    """The teams of an executor's GPUs: one for each plan, kept for its next product.

    It is found by identity: to compare plans takes longer than to enqueue a small product.
    """

    def __init__(self, pipelines: Sequence[GpuPipeline]) -> None:
        self.pipelines = pipelines
        self._kept = LastUsed[int, tuple[Plan, Team]](_KEPT)

    def find(self, plan: Plan) -> Team:
        """The team of a plan."""
        kept = self._kept.find(id(plan))
        if kept is not None:
            return kept[1]
        parts = [
            TeamPart(self.pipelines[part.position], part.rows, part.columns, part.cut)
            for part in plan.gpu_parts
        ]
        team = Team(parts, exchanges=plan.exchanges)
        self._kept.keep(id(plan), (plan, team))  # which keeps its id from another plan
        return team
