"""`wavetrim probe`: the memory-hierarchy probes, on this machine."""

from pathlib import Path
from typing import Annotated, Final

import typer

EXAMPLES: Final = """[bold]Examples[/]

wavetrim probe
wavetrim probe strides
wavetrim probe transfers --out figures
"""

_OUT: Final = Path("wavetrim-probe")


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
    """Measure one part of this machine's memory hierarchy, links or kernels on its GPU.

    Prints tables and writes them as Markdown, CSV and PNG, beside the reference's figures where
    there are some. Without NAME it lists what can be measured.
    """
    from scheduler.probes.catalog import find_probe
    from service.commands.reproduce import run_report

    if name is None:
        _list_probes()
        return
    found = find_probe(name)
    run_report(found.name, out, found.run, "what was moved is wrong")


def _list_probes() -> None:
    from rich.markup import escape
    from rich.table import Table

    from scheduler.probes.catalog import PROBES
    from service.commands.display import open_output

    shown = Table(box=None, show_header=False, pad_edge=False)
    shown.add_column(style="bold", no_wrap=True)
    shown.add_column()
    for one in PROBES:
        shown.add_row(one.name, escape(one.shows))
    open_output().print(shown)
