"""Commands that measure this machine for lessons: `probe`, and the experiments of `reproduce`.

Options:
    out (DIR): Folder for the Markdown, CSV and PNG files.
    w: Width of the kernel's tile.
    kernel: A kernel of the catalog with W x W tiles.
    sizes (N,N,…): Values of N.
    widths (W,W,…): Widths of the tile.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

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
from wavetrim.scheduler.errors import FieldError
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.service.cli import display
from wavetrim.service.cli.exits import CommandFailed, ExitCode
from wavetrim.service.cli.machine import check_folder, find_machine

_Out = Annotated[Path, typer.Option(file_okay=False)]
_PROBE_OUT: Final = Path("wavetrim-probe")
_OUT: Final = Path("wavetrim-reproduce")
_W = Annotated[int, typer.Option(min=1)]
_Widths = Annotated[str, typer.Option("--w")]
_Stride = Annotated[int | None, typer.Option(min=1, show_default="16 more than the columns")]


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


def compara(
    *, sizes: str = "512,1024,2048,4096", widths: _Widths = "4,8,16,32", out: _Out = _OUT
) -> None:
    """Compare the kernels simple, coalesced and shared on C[N,N] = A[N,W]·B[W,N]: Tables 1–9.

    Example:
        wavetrim reproduce compara-kernels --out figures
    """
    numbers = read_numbers("--sizes", sizes), read_numbers("--w", widths)
    _measure(compara_kernels.NAME, out, compara_kernels.run_experiment, *numbers)


def square(
    *,
    sizes: str = "512,1024,2048,4096",
    widths: _Widths = "4,8,16,32",
    kernel: str = "shared",
    out: _Out = _OUT,
) -> None:
    """Multiply square matrices with tiles of each width: Tables 10–16, times and GFLOP/s.

    Example:
        wavetrim reproduce mulmatcua --kernel simple --out figures
    """
    numbers = read_numbers("--sizes", sizes), read_numbers("--w", widths)
    _measure(mulmatcua.NAME, out, mulmatcua.run_experiment, *numbers, kernel)


def rectangular(
    m: int = 224,
    n: int = 256,
    k: int = 192,
    *,
    w: _W = 32,
    kernel: str = "shared",
    out: _Out = _OUT,
) -> None:
    """Multiply rectangular matrices, and show the grid: S x T blocks that take R steps each.

    Example:
        wavetrim reproduce mulmat 224 256 192 --w 32 --out figures
    """
    problem = GemmProblem(m, n, k)
    _measure(mulmat.NAME, out, mulmat.run_experiment, problem, w, kernel)


def hybrid(
    m: int = 2048,
    n: int = 2048,
    k: int = 2048,
    *,
    w: _W = 4,
    f: str = "0,4,8,16,24,32",
    kernel: str = "shared",
    out: _Out = _OUT,
) -> None:
    """Give the last F rows to the CPU: seconds of kernel, transfer, GPU and CPU: Table 17.

    Options:
        f (F,F,…): Rows of C that the CPU computes.

    Example:
        wavetrim reproduce hybrid-f --f 0,4,8,16,24,32 --out figures
    """
    problem, rows = GemmProblem(m, n, k), read_numbers("--f", f, least=0)
    _measure(hybrid_f.NAME, out, hybrid_f.run_experiment, problem, w, rows, kernel)


def padded(
    m: int = 2000,
    n: int = 2100,
    k: int = 1900,
    *,
    lda: _Stride = None,
    ldb: _Stride = None,
    ldc: _Stride = None,
    out: _Out = _OUT,
) -> None:
    """Add A·B to C in float64 with leading dimensions, by both kernels; padding stays untouched.

    Example:
        wavetrim reproduce matmatgpu 2000 2100 1900 --out figures
    """
    problem = GemmProblem(m, n, k, "float64")
    strides = matmatgpu.LeadingDimensions(lda, ldb, ldc)
    _measure(matmatgpu.NAME, out, matmatgpu.run_experiment, problem, strides)


def checked(
    m: int = 160, n: int = 256, k: int = 96, *, w: _W = 32, kernel: str = "shared", out: _Out = _OUT
) -> None:
    """Multiply random matrices and compare with the CPU's product: PASSED, or what differs.

    Example:
        wavetrim reproduce sdk-multiply 160 256 96 --w 32 --out figures
    """
    problem = GemmProblem(m, n, k)
    _measure(sdk_multiply.NAME, out, sdk_multiply.run_experiment, problem, w, kernel)


GROUPS: Final = {
    "reproduce": {
        compara_kernels.NAME: compara,
        mulmatcua.NAME: square,
        mulmat.NAME: rectangular,
        hybrid_f.NAME: hybrid,
        matmatgpu.NAME: padded,
        sdk_multiply.NAME: checked,
    }
}
"""The experiments, by name."""


def read_numbers(option: str, text: str, *, least: int = 1) -> tuple[int, ...]:
    """Whole numbers from a list with commas, each once."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and int(word) >= least for word in words):
        raise FieldError(option, text, f"whole numbers of at least {least} with commas between")
    return tuple(dict.fromkeys(map(int, words)))


def _measure(
    name: str, out: Path, run: Callable[..., Report], *arguments: object, needs_gpu: bool = True
) -> None:
    """Call run(bench, *arguments) with a progress bar, if results can be drawn and written."""
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
            cpu_threads=here.threads,
            gpu_memory_bytes=here.settings.gpu_memory_bytes,
            tell=move,
        )
        report = run(bench, *arguments)
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
