"""`wavetrim probe`: the memory-hierarchy probes, on this machine."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from wavetrim.lab.reports.bench import CpuBench
    from wavetrim.lab.reports.report import Report

EXAMPLES: Final = """[bold]Examples[/]

wavetrim probe
wavetrim probe strides
wavetrim probe transfers --out figures
"""

_OUT: Final = Path("wavetrim-probe")
_WRONG: Final = "what was moved or computed is wrong"


def probe(
    *,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="What to measure.", show_default="list them"),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="DIR",
            file_okay=False,
            help="Folder for the Markdown, CSV and PNG files.",
        ),
    ] = _OUT,
) -> None:
    """Measure one part of this machine: its memory hierarchy, links, kernels or CPU.

    Prints tables and writes them as Markdown, CSV and PNG, with the reference's figures if there
    are any. Without NAME it lists what can be measured.
    """
    from wavetrim.lab.probes.catalog import find_probe
    from wavetrim.service.cli.commands.machine.reports import run_report
    from wavetrim.service.cli.machine import find_devices, load_machine_settings

    if name is None:
        _list_probes()
        return
    found = find_probe(name)
    if found.run_without_gpu is not None and not find_devices(load_machine_settings()):
        _run_without_gpu(found.name, out, found.run_without_gpu)
    else:
        run_report(found.name, out, found.run, _WRONG)


def _run_without_gpu(name: str, out: Path, measure: "Callable[[CpuBench], Report]") -> None:
    """Run a probe that needs no GPU, with a progress bar."""
    from wavetrim.lab.reports.bench import CpuBench
    from wavetrim.lab.reports.plot import require_drawing
    from wavetrim.service.cli.commands.machine.reports import finish_report
    from wavetrim.service.cli.folders import check_folder
    from wavetrim.service.cli.machine import count_threads, load_machine_settings
    from wavetrim.service.cli.terminal.display import announce_compiling, open_notes, show_share

    require_drawing()
    check_folder("--out", out)
    settings = load_machine_settings()
    notes = open_notes()
    with announce_compiling(notes), show_share(notes, name) as move:
        report = measure(CpuBench(count_threads(settings), settings.kernel_cache_dir, tell=move))
    finish_report(report, out, _WRONG)


def _list_probes() -> None:
    from rich.markup import escape
    from rich.table import Table

    from wavetrim.lab.probes.catalog import PROBES
    from wavetrim.service.cli.terminal.display import open_output

    shown = Table(box=None, show_header=False, pad_edge=False)
    shown.add_column(style="bold", no_wrap=True)
    shown.add_column()
    for one in PROBES:
        shown.add_row(one.name, escape(one.shows))
    open_output().print(shown)
