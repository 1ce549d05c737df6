"""The teams of an executor's GPUs: those of a plan compute parts of its products together."""

from collections.abc import Sequence

from wavetrim.kernels.pipeline.pipeline import GpuPipeline
from wavetrim.kernels.pipeline.team import Team, TeamPart
from wavetrim.kernels.schedule.steps import Cut
from wavetrim.scheduler.execution.kept import KeptByPlan
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.planning.team import GpuPart


class Teams:
    """The teams of an executor's GPUs: one for each plan, kept for its next product.

    Args:
        pipelines: The GPUs, at the positions that plans name.
    """

    def __init__(self, pipelines: Sequence[GpuPipeline]) -> None:
        self.pipelines = pipelines
        self._kept = KeptByPlan[Team]()

    def find(self, plan: Plan) -> Team:
        """The team of a plan."""
        kept = self._kept.find(plan)
        if kept is not None:
            return kept
        parts = [
            TeamPart(self.pipelines[part.position], part.rows, part.columns, _find_cut(plan, part))
            for part in plan.gpu_parts
        ]
        team = Team(parts, exchanges=plan.exchanges)
        self._kept.keep(plan, team)
        return team


def _find_cut(plan: Plan, part: GpuPart) -> Cut:
    """The cut of a part; GPUs that exchange B cut it alike."""
    if not plan.exchanges:
        return part.cut
    cut, rows = plan.gpu_parts[0].cut, len(part.rows)
    first_rows, panel_rows = min(rows, cut.first_rows), min(rows, cut.panel_rows)
    return cut._replace(first_rows=first_rows, panel_rows=panel_rows)
