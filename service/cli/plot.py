"""A plan in characters: its seconds over F, which show why F was chosen, and its timeline."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from wavetrim.scheduler.planning.drawing import find_near_f, list_edges
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.service.cli.display import make_list
from wavetrim.service.cli.units import format_seconds

_MOST_WAVES: Final = 14
"""The most rows of waves; chosen."""

_BAR: Final = 24
"""Characters of the longest bar; chosen."""

_HEIGHTS: Final = " ▁▂▃▄▅▆▇█"
_COLOURS: Final = {"copy in": "yellow", "kernel": "green", "copy out": "blue", "cpu": "cyan"}


def compare_splits(plan: Plan) -> Table:
    """A table of seconds over F: a row for each F at which the GPU needs a wave less.

    Also for F = 0, the chosen F, the best refused one, and one at which the CPU is the slower side.
    The bar is the longer of the two parts.
    """
    near = find_near_f(plan)
    refused = {plan.refused.f} if plan.refused is not None else set()
    edges = list_edges(plan, 0, near, most=_MOST_WAVES)
    splits = [plan.give_cpu(f) for f in sorted({0, plan.f, near, *refused, *edges})]
    longest = max(one.predicted.total_seconds for one in splits)
    numbers = ("F", "waves", "GPU", "CPU")
    table = make_list(*numbers, "", right=numbers)
    for one in splits:
        gpu_seconds, cpu_seconds = one.predicted
        bar = "█" * max(1, round(_BAR * one.predicted.total_seconds / longest))
        table.add_row(
            *(str(one.f), str(one.waves)),
            *(format_seconds(gpu_seconds), format_seconds(cpu_seconds)),
            Text.assemble(
                (bar, _COLOURS["cpu" if cpu_seconds > gpu_seconds else "kernel"]),
                (" ← chosen" if one.f == plan.f else "", "bold magenta"),
            ),
        )
    return table


def draw_timeline(queues: Sequence[dict[str, Any]], *, width: int) -> Text:
    """Draw when each queue is at work: a line each, and one of seconds.

    A character is an interval of time, and its height the share of it in which the queue is busy.
    So a gap shows where one queue waits for another.

    Args:
        queues: When each queue is at work, as `/v1/plan` describes it.
        width: Characters a line may have.
    """
    several = len({queue["device"] for queue in queues} - {"cpu"}) > 1
    name = "{device} {queue}" if several else "{queue}"
    labels = ["CPU" if one["queue"] == "cpu" else name.format(**one) for one in queues]
    indent = max(map(len, (*_COLOURS, *labels))) + 1
    columns = max(8, width - indent)
    end = max(queue["spans"][-1]["end_seconds"] for queue in queues)
    lines = []
    for label, queue in zip(labels, queues, strict=True):
        bar = "".join(_draw_columns(queue, end / columns, columns)).rstrip()
        lines.append(Text(label.ljust(indent)).append(bar, style=_COLOURS[queue["queue"]]))
    lines.append(Text(" " * indent + "0" + format_seconds(end).rjust(columns - 1)))
    return Text("\n").join(lines)


def _draw_columns(queue: dict[str, Any], column_seconds: float, columns: int) -> Iterator[str]:
    """A character for each interval; it is empty only for no work at all."""
    shares = [0.0] * columns
    for span in queue["spans"]:
        begin, end = (span[name] / column_seconds for name in ("begin_seconds", "end_seconds"))
        for column in range(int(begin), min(int(end) + 1, columns)):
            shares[column] += max(0.0, min(column + 1, end) - max(column, begin))
    most = len(_HEIGHTS) - 1
    for share in shares:
        yield _HEIGHTS[max(share > 0, min(most, round(share * most)))]
