"""`wavetrim plan`: how a product would be split, in tables and in characters."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from wavetrim.scheduler.planning.choice import SPLIT_GAIN, choose_plan
from wavetrim.scheduler.planning.description import describe_plan
from wavetrim.scheduler.planning.drawing import describe_schedule, find_near_f, list_edges
from wavetrim.scheduler.planning.plan import Plan
from wavetrim.scheduler.problem import GemmProblem, find_memory
from wavetrim.scheduler.profile.store import is_elsewhere
from wavetrim.scheduler.profile.what_if import WhatIf, apply_what_if
from wavetrim.service.cli import display, options
from wavetrim.service.cli.machine import find_machine
from wavetrim.service.storage.memory.memory_limit import count_memory

_TIMELINE_WIDTH: Final = 100

_MOST_WAVES: Final = 14
"""The most rows of waves; chosen."""

_BAR: Final = 24
"""Characters of the longest bar; chosen."""

_HEIGHTS: Final = " ▁▂▃▄▅▆▇█"
_COLOURS: Final = {"copy in": "yellow", "kernel": "green", "copy out": "blue", "cpu": "cyan"}


def plan(
    m: int,
    n: int,
    k: int,
    *,
    dtype: str = "float32",
    memory: str = "pageable",
    device: str | None = None,
    split: options.SplitOptions,
    resident: bool = False,
    cpu_threads: int | None = None,
    cpu_gflops: float | None = None,
    link_gbytes_per_second: float | None = None,
    timeline: bool = False,
    as_json: options.Json = False,
    profile_dir: Path | None = None,
) -> None:
    """Show how C = A·B would be split, and why: F, waves, predicted seconds.

    Nothing is computed, and the GPU need not be here: `wavetrim devices` lists the presets. With a
    preset the CPU is still this machine's, calibrated or estimated.

    Options:
        device (; this machine): GPU to plan for: a local one (cuda:0, name, UUID), a preset,
            several of one kind (H200 x2), or cpu.
        timeline: Show when copies, kernels and the CPU are at work.

    What if:
        resident: What if B were on the GPUs already, as after many jobs with it.
        cpu_threads (COUNT; this machine's): What if the CPU had this many threads: its rates grow
            with them.
        cpu_gflops (RATE; as measured or estimated): What if the CPU alone had this rate in this
            element type.
        link_gbytes_per_second (RATE; as measured or estimated): What if the GPU's link had this
            rate each way.

    Example:
        wavetrim plan 4096 4096 4096 --device H100
        wavetrim plan 16384 16384 256 --device "T4 x2" --memory pinned --timeline
    """
    problem = GemmProblem(m, n, k, dtype, find_memory(memory), resident)
    asked = split.read()
    what_if = WhatIf(cpu_threads, cpu_gflops, link_gbytes_per_second)
    here = find_machine(profile_dir=profile_dir, device=device)
    profile = apply_what_if(here.find_profile(device), what_if, dtype)
    problem.check_fits(None if is_elsewhere(device, here.devices) else count_memory())
    chosen = choose_plan(problem, profile, asked)
    if as_json:
        display.print_json(chosen.describe(drawing=timeline))
    else:
        _print_tables(chosen, with_timeline=timeline)


def _print_tables(plan: Plan, *, with_timeline: bool) -> None:
    console = display.open_output()
    problem = plan.problem
    m, n, k = problem.m, problem.n, problem.k
    console.print(f"C[{m},{n}] = A[{m},{k}] · B[{k},{n}], {problem.dtype}", markup=False)
    described = describe_plan(plan)
    console.print(display.make_plan_table(described))
    if (refused := plan.refused) is not None:
        times, least = plan.chosen_seconds / refused.chosen_seconds, 1 - SPLIT_GAIN[problem.memory]
        text = f"F = {refused.f} would be {times:.2f} times as fast; below {1 / least:.2f}"
        console.print(f"{text} no split is made, as one device is the steadier choice")
    console.print("\nwhere the numbers come from")
    console.print(display.make_source_table(described))
    if with_timeline:
        console.print("\ntimeline")
        width = min(console.width, _TIMELINE_WIDTH)
        console.print(_draw_timeline(describe_schedule(plan), width=width), soft_wrap=True)
    if plan.side is None or plan.gpu_only_seconds is None:
        console.print(f"F = M: {plan.no_gpu_reason}.", markup=False)
        return
    console.print("\nseconds over F")
    console.print(_compare_splits(plan))


def _compare_splits(plan: Plan) -> Table:
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
    table = display.make_list(*numbers, "", right=numbers)
    for one in splits:
        gpu_seconds, cpu_seconds = one.predicted
        bar = "█" * max(1, round(_BAR * one.predicted.total_seconds / longest))
        table.add_row(
            *(str(one.f), str(one.waves)),
            *(display.format_seconds(gpu_seconds), display.format_seconds(cpu_seconds)),
            Text.assemble(
                (bar, _COLOURS["cpu" if cpu_seconds > gpu_seconds else "kernel"]),
                (" ← chosen" if one.f == plan.f else "", "bold magenta"),
            ),
        )
    return table


def _draw_timeline(queues: Sequence[dict[str, Any]], *, width: int) -> Text:
    """Draw when each queue is at work: a line each, and one of seconds.

    A character is an interval of time, and its height the share of it in which the queue is busy.
    So a gap shows where one queue waits for another. `/v1/plan` describes the queues.
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
    lines.append(Text(" " * indent + "0" + display.format_seconds(end).rjust(columns - 1)))
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
