"""Tables of plans and timings, figures with three digits and a unit, and progress bars."""

import contextlib
import json
import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)
from rich.table import Table

_SECONDS = ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))
_BYTES = ((2**10, "KiB"), (2**20, "MiB"), (2**30, "GiB"), (2**40, "TiB"))
_GFLOPS = ((1.0, "GFLOP/s"), (1e3, "TFLOP/s"))

_COMPILERS: Final = ("native.library", "kernels.compile")
"""Modules that compile, whose loggers say so."""


def open_output() -> Console:
    """Standard output, for results."""
    return Console(highlight=False, emoji=False)


def open_notes() -> Console:
    """Standard error, for progress and remarks, which must not get into a pipe."""
    return Console(stderr=True, highlight=False, emoji=False)


def make_list(*left: str, right: Collection[str] = (), wraps: bool = False) -> Table:
    """A table without lines, to be filled; the columns of numbers are aligned at the `right`.

    If it `wraps`, its cells, but the first of each row, may take several lines.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title_justify="left")
    for number, name in enumerate(left):
        table.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=not (wraps and number),
            overflow="fold",
        )
    return table


def print_json(document: object) -> None:
    """Print a document as JSON on standard output."""
    typer.echo(json.dumps(document, indent=2))


def make_plan_table(plan: Mapping[str, Any]) -> Table:
    """A table of a plan, as `scheduler.planning.description` describes it."""
    table = Table(show_header=False, title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    if (stack := plan.get("stack")) is not None:
        table.add_row("products", f"{stack}, each as follows")
    f, gpu_rows = plan["f"], plan["gpu_rows"]
    table.add_row("F, rows on the CPU", f"[bold magenta]{f}[/] of {f + gpu_rows}")
    table.add_row("rows on the GPU", str(gpu_rows))
    if plan["kernel"] is not None:
        # Plans of older jobs lack memory, accuracy and multiprocessors.
        there = ", B on the GPU already" if plan.get("resident") else ""
        split = ", split along K" if plan.get("tail_split") else ""
        for name, value, text in (
            ("operands in", plan.get("memory"), "{} memory" + there),
            ("kernel, tile", f"{plan['kernel']} {plan['tile']}", "{}"),
            ("accuracy", plan.get("accuracy"), "{}"),
            ("multiprocessors", plan.get("sms"), "at most {}"),
            ("waves", plan["waves"], f"{{}}, with F = 0 {plan['waves_gpu_only']}"),
            ("last wave filled", plan["tail_utilization"], "{:.0%}" + split),
        ):
            if value is not None:
                table.add_row(name, text.format(value))
    devices = plan.get("devices", ())
    gpus = [one["device"] for one in devices if one["device"] != "cpu"]
    for part in devices if gpus not in ([], ["cuda:0"]) else ():
        waves = f", {part['waves']} waves" if part["waves"] is not None else ""
        seconds = format_seconds(part["seconds"])
        columns = f" × {part['columns']} columns" if part.get("columns") else ""
        table.add_row(part["device"], f"{part['rows']} rows{columns}{waves}, {seconds}")
    predicted = plan["predicted"]
    table.add_row(
        "predicted",
        f"GPU {format_seconds(predicted['gpu_seconds'])}, "
        f"CPU {format_seconds(predicted['cpu_seconds'])}, "
        f"total [bold]{format_seconds(predicted['total_seconds'])}[/]",
    )
    table.add_row("speed-up", _describe_speedup(plan))
    if (node := plan.get("node")) is not None:
        table.add_row("node", f"{node['host']}, {node['id'][:12]}")
    if (profile := plan.get("profile")) is not None:
        device, source = profile["device"], profile["source"]
        table.add_row("profile", source if device in source else f"{device}: {source}")
        for one in profile.get("corrections", ()):
            runs = f"{one['runs']} run{'s' if one['runs'] > 1 else ''}"
            table.add_row("corrected", f"×{one['factor']:.2f} by {runs}: {one['runs_like']}")
    return table


def make_source_table(plan: Mapping[str, Any]) -> Table:
    """A table of the figures that decided a plan, each with its source."""
    table = Table("what", "figures", "source")
    profile = plan["profile"]
    if (count := profile["sm_count"]) is not None:
        table.add_row("GPU", f"{profile['device']}, {count} multiprocessors", profile["source"])
    if (kernel := profile["kernel"]) is not None:
        wave = format_seconds(kernel["wave_seconds"])
        table.add_row(plan["kernel"], f"{kernel['slots']} slots, {wave} a wave", kernel["source"])
    if (link := profile["link"]) is not None:
        rates = [link[f"{way}_gbytes_per_second"] for way in ("in", "out")]
        figures = f"{rates[0]:.1f} GB/s in, {rates[1]:.1f} out, {link['memory']} memory"
        table.add_row("link", figures, link["source"])
    cpu = profile["cpu"]
    beside = "" if link is None else f", {cpu['threads_beside_gpu']} beside the GPU"
    rate = format_gflops(cpu["gflops"])
    table.add_row("CPU", f"{cpu['threads']} threads{beside}, {rate}", cpu["source"])
    return table


def make_timings_table(timings: Mapping[str, float | None], plan: Mapping[str, Any]) -> Table:
    """A table of the predicted and measured seconds of a plan, and their ratio; of all products."""
    gpu_parts = ("kernel", "transfer", "gpu") if plan["gpu_rows"] else ()
    table = Table()
    table.add_column("part", style="bold")
    for name in ("predicted", "measured", "predicted/measured"):
        table.add_column(name, justify="right", no_wrap=True)
    several = sorted(name[: -len("_seconds")] for name in timings if re.match(r"gpu\d+_", name))
    for part in (*gpu_parts, *several, "cpu", "total"):
        measured = timings.get(f"{part}_seconds") or 0.0
        of_one = plan["predicted"].get(f"{part}_seconds")
        expected = None if of_one is None else of_one * (plan.get("stack") or 1)
        table.add_row(
            part.upper() if part[:3] in ("gpu", "cpu") else part,
            "" if expected is None else format_seconds(expected),
            format_seconds(measured),
            f"{expected / measured:.2f}" if expected and measured else "",
            end_section=part == "cpu",
        )
    if (waited := timings.get("device_wait_seconds")) is not None:
        table.add_row("waited", "", format_seconds(waited), "")
    return table


def format_seconds(seconds: float) -> str:
    """Three significant digits: "12.3 ms"."""
    return _format(seconds, _SECONDS) if seconds else "0 s"


def format_bytes(count: int) -> str:
    """Three significant digits in powers of two: "16.0 MiB"."""
    return _format(count, _BYTES) if count >= 1024 else f"{count} B"


def format_gflops(gflops: float) -> str:
    """Three significant digits: "66.9 TFLOP/s"."""
    return _format(gflops, _GFLOPS)


def _format(value: float, units: Sequence[tuple[float, str]]) -> str:
    """Three significant digits without an exponent, in the first unit that needs no more."""
    size, unit = next((one for one in units if value / one[0] < 999.5), units[-1])
    shown = value / size
    digits = 0 if shown >= 99.95 else 1 if shown >= 9.995 else 2
    return f"{shown:.{digits}f} {unit}"


@contextlib.contextmanager
def announce_compiling(console: Console) -> Iterator[None]:
    """Within the block, say when something is compiled, since a first run takes longer for it."""
    shown: set[str] = set()

    def show_first(record: logging.LogRecord) -> bool:
        """Show the first record of each logger: more of them follow, but users know by then."""
        is_warning = record.levelno > logging.INFO
        if not is_warning and record.name not in shown:
            shown.add(record.name)
            console.print(record.getMessage(), markup=False, soft_wrap=True)
        return is_warning

    loggers = [logging.getLogger(f"wavetrim.{name}") for name in _COMPILERS]
    for logger in loggers:
        logger.addFilter(show_first)
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(show_first)


@contextlib.contextmanager
def show_share(console: Console, words: str) -> Iterator[Callable[..., None]]:
    """A progress bar of a share 0…1, which ends at 1 when the block succeeds.

    Yields a function that moves it: by the share, and words on what is being done.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task(words, total=1.0)

        def move(share: float, what: str = "") -> None:
            progress.update(task, completed=share, description=f"{words} {what}".rstrip())

        yield move
        progress.update(task, completed=1.0)


@contextlib.contextmanager
def show_bytes(console: Console) -> Iterator[Callable[[str, int, int | None], None]]:
    """Progress bars of bytes, which appear with their first bytes.

    Yields a function that moves one: by its words, bytes done, and bytes in all.
    """
    words = TextColumn("{task.description}", markup=False)  # they have names of files
    columns = (words, BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn())
    progress = Progress(*columns, console=console)
    bars: dict[str, TaskID] = {}

    def move(words: str, done: int, total: int | None) -> None:
        if words not in bars:
            bars[words] = progress.add_task(words)
            progress.start()
        progress.update(bars[words], completed=done, total=total)

    try:
        yield move
    finally:
        if bars:
            progress.stop()


def _describe_speedup(plan: Mapping[str, Any]) -> str:
    over_cpu = f"{plan['speedup_over_cpu']:.2f} over the CPU alone"
    if plan["speedup_over_gpu"] is None:
        return f"{over_cpu}; no GPU runs this product"
    return f"{plan['speedup_over_gpu']:.2f} over the GPU alone, {over_cpu}"


def describe_check(verification: Mapping[str, Any]) -> str:
    """The error of a checked product, and how many rows were computed again, in words."""
    error, allowed = verification["max_error"], verification["tolerance"]
    text = f"error {error:.3g} of {allowed:.3g} allowed"
    if (device := verification.get("recomputed_on")) is None:
        return text
    rows = verification["wrong_rows"]
    return f"{text}, after {rows} wrong row(s) were computed again on the {device}"
