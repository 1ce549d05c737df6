"""The plot of schedules: when copies in, kernels, copies out and the CPU are busy.

The planner predicts them by the profile of a results file.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks.common.plots import DOCS, Plot
from benchmarks.common.shapes import Shape, name_shape
from benchmarks.host.results import HostResults
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem, Memory
from wavetrim.scheduler.profile.machine import MachineProfile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DRAWN: Final[tuple[tuple[Shape, Memory], ...]] = (
    ((8192, 8192, 8192), "pinned"),
    ((16384, 16384, 256), "pinned"),
    ((4096, 4096, 4096), "pageable"),
    ((65536, 256, 256), "pageable"),
)
"""Products in float32 that are bound by kernels, by copies out, and by copies both ways."""

_COLOURS: Final = {
    "copy in": "#e69f00",
    "kernel": "#009e73",
    "copy out": "#0072b2",
    "CPU": "#d55e00",
}


def plot_timelines(results: HostResults) -> Plot:
    """A panel a product, a line a queue."""
    profile = MachineProfile.from_dict(results.document["profile"])
    plans = [
        choose_plan(GemmProblem(*shape, "float32", memory), profile) for shape, memory in DRAWN
    ]
    figures = [_round_times(plan) for plan in plans]
    title = f"Predicted schedules, float32, {results.document['hardware']['gpu']}"
    draw = partial(_draw_timelines, title=title, plans=plans)
    name = f"timelines-{results.gpu}"
    return Plot(DOCS / f"{name}.png", [results.caption, name, *figures], (9.0, 4.6), 130, draw)


def _round_times(plan: Plan) -> dict[str, list[list[float]]]:
    """A plan's queues in whole microseconds."""
    return {
        name: [[round(time, 6) for time in span] for span in spans]
        for name, spans in plan.list_queues().items()
    }


def _draw_timelines(figure: "Figure", title: str, plans: list[Plan]) -> None:
    figure.suptitle(title, fontsize=11)
    for axes, plan in zip(figure.subplots(2, 2).flat, plans, strict=True):
        _draw_plan(axes, plan)


def _draw_plan(axes: "Axes", plan: Plan) -> None:
    queues = plan.list_queues()
    for place, (name, spans) in enumerate(queues.items()):
        bars = [(1e3 * span.begin, 1e3 * (span.end - span.begin)) for span in spans]
        axes.broken_barh(bars, (place - 0.4, 0.8), color=_COLOURS[name], edgecolor="white", lw=0.4)
    axes.set_yticks(range(len(queues)), list(queues), fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    problem = plan.problem
    shape = name_shape((problem.m, problem.n, problem.k))
    axes.set_title(f"{shape}, {problem.memory}: F = {plan.f}", fontsize=9)
    axes.set_xlabel("milliseconds", fontsize=7)
    axes.tick_params(axis="x", labelsize=7)
