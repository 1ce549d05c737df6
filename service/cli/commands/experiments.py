"""Commands that measure this machine for lessons: `probe`, and the experiments of `reproduce`.

Options:
    out (DIR): Folder for the Markdown, CSV and PNG files.
    w: Width of the kernel's tile.
    kernel: A kernel of the catalog with W x W tiles.
    sizes (N,N,…): Values of N.
    f (F,F,…): Rows of C that the CPU computes.
    lda (COUNT; 16 more than the columns): Leading dimension of A, in elements.
    ldb (COUNT; 16 more than the columns): Leading dimension of B.
    ldc (COUNT; 16 more than the columns): Leading dimension of C.
"""

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final

import typer
from rich.markup import escape
from rich.table import Table

from wavetrim.lab.experiments import (
    compara_kernels,
    hybrid_f,
    matmatgpu,
    mulmat,
    mulmatcua,
    sdk_multiply,
)
from wavetrim.lab.probes.catalog import PROBES, find_probe
from wavetrim.lab.reports.bench import Bench, pick_device
from wavetrim.lab.reports.plot import require_drawing
from wavetrim.lab.reports.report import Report, write_report
from wavetrim.lab.reports.table import Table as Figures
from wavetrim.service.cli import display
from wavetrim.service.cli.exits import CommandFailed, ExitCode
from wavetrim.service.cli.machine import check_folder, find_machine

_Out = Annotated[Path, typer.Option(file_okay=False)]
_PROBE_OUT: Final = Path("wavetrim-probe")
_OUT: Final = Path("wavetrim-reproduce")


def probe(name: str | None = None, *, out: _Out = _PROBE_OUT) -> None:
    """Measure one part of this machine: memory, links, kernels or CPU.

    Tables are printed and written as Markdown, CSV and PNG. Without NAME it lists what can be
    measured.

    Options:
        name (NAME; list them): What to measure.

    Example:
        wavetrim probe cpu-rows --out figures
    """
    if name is None:
        shown = Table.grid(padding=(0, 1))
        for one in PROBES:
            shown.add_row(f"[bold]{one.name}[/]", escape(one.shows))
        display.open_output().print(shown)
        return
    found = find_probe(name)
    _measure(found.name, out, found.run, needs_gpu=found.needs_gpu)


def reproduce() -> None:
    """Repeat an experiment of the course that wavetrim grew from.

    It needs a GPU. Tables are printed and written as Markdown, CSV and PNG, with the figures that
    the course had (the reference's).
    """


def _make_command(experiment: ModuleType) -> Callable[..., None]:
    """An experiment's function as a command: without the machine, and with a folder for files."""

    def command(out: Path, **given: Any) -> None:
        _measure(experiment.NAME, out, partial(experiment.run_experiment, **given))

    command.__doc__ = experiment.run_experiment.__doc__
    signature = inspect.signature(experiment.run_experiment)
    _, *parameters = signature.parameters.values()
    where = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, annotation=_Out, default=_OUT)
    command.__signature__ = signature.replace(parameters=[*parameters, where])  # type: ignore[attr-defined]
    return command


GROUPS: Final = {
    "reproduce": {
        one.NAME: _make_command(one)
        for one in (compara_kernels, mulmatcua, mulmat, hybrid_f, matmatgpu, sdk_multiply)
    }
}
"""The experiments, by name."""


def _measure(
    name: str, out: Path, run: Callable[[Bench], Report], *, needs_gpu: bool = True
) -> None:
    """Measure with a progress bar, if results can be drawn and written."""
    here = find_machine()
    device = pick_device(here.devices, here.settings.devices, needs_gpu=needs_gpu)
    require_drawing()
    check_folder("--out", out)
    notes = display.open_notes()
    with display.announce_compiling(notes), display.show_share(notes, name) as move:
        bench = Bench(
            device=device,
            others=here.devices[1:],
            cache_dir=here.settings.own_cache_dir,
            cpu_threads=here.settings.count_threads(),
            gpu_memory_bytes=here.settings.gpu_memory_bytes,
            tell=move,
        )
        report = run(bench)
    finish_report(report, out)


def finish_report(report: Report, out: Path) -> None:
    """Write the report's files into a folder, and print its tables."""
    files = write_report(report, out)
    output = display.open_output()
    output.print(report.title, markup=False)
    output.print(f"Measured on {report.hardware}.", markup=False, soft_wrap=True)
    for sentence in report.findings:
        output.print(sentence, markup=False)
    for figures in report.tables:
        output.print(f"\n{figures.title}", style="bold", markup=False)
        output.print(_make_table(figures))
    for file in files:
        output.print(f"written: {file}", markup=False, soft_wrap=True)
    if not report.passed:
        raise CommandFailed(f"{report.name}: a result is wrong", ExitCode.WRONG)


def _make_table(figures: Figures) -> Table:
    shown = Table()
    for column, name in enumerate(figures.head):
        # Heads may take several lines, figures never do.
        least = max(map(len, (*name.split(), *(row[column] for row in figures.rows))))
        shown.add_column(name, justify="right" if column else "left", min_width=least)
    for row in figures.rows:
        shown.add_row(*row)
    return shown
