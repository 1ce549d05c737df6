"""For experiments and probes: opens a machine with a GPU, and writes and prints reports."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from wavetrim.lab.reports.bench import Bench
    from wavetrim.lab.reports.report import Report
    from wavetrim.lab.reports.table import Table


def read_numbers(option: str, text: str, *, least: int = 1) -> tuple[int, ...]:
    """Whole numbers from a list with commas, each once.

    Raises:
        FieldError: One is no whole number, or is too small.
    """
    from wavetrim.scheduler.errors import FieldError

    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and int(word) >= least for word in words):
        raise FieldError(option, text, f"whole numbers of at least {least} with commas between")
    return tuple(dict.fromkeys(map(int, words)))


def finish_report(report: "Report", out: Path, wrong: str = "the product is wrong") -> None:
    """Write the report's files and print its tables.

    Args:
        report: What to write and print.
        out: Folder of the files.
        wrong: What to say if the report did not pass.

    Raises:
        CommandFailed: A result was wrong.
    """
    from wavetrim.lab.reports.report import write_report
    from wavetrim.service.cli.exits import CommandFailed, ExitCode
    from wavetrim.service.cli.terminal.display import open_output

    files = write_report(report, out)
    output = open_output()
    output.print(report.title, markup=False)
    output.print(f"Measured on {report.hardware}.", markup=False, soft_wrap=True)
    for sentence in report.findings:
        output.print(sentence, markup=False)
    for table in report.tables:
        output.print(f"\n{table.title}", style="bold", markup=False)
        output.print(_make_table(table))
    for file in files:
        output.print(f"written: {file}", markup=False, soft_wrap=True)
    if not report.passed:
        raise CommandFailed(f"{report.name}: {wrong}", ExitCode.WRONG)


def run_report(
    name: str,
    out: Path,
    measure: "Callable[[Bench], Report]",
    wrong: str = "the product is wrong",
) -> None:
    """Run an experiment with a progress bar, after checking that it has all that it needs.

    Args:
        name: Text of the progress bar.
        out: Folder of the report's files.
        measure: The experiment.
        wrong: What to say if the report did not pass.

    Raises:
        DeviceUnavailable: There is no GPU.
        DrawingUnavailable: matplotlib is not installed.
        CommandFailed: A result was wrong.
    """
    from dataclasses import replace

    from wavetrim.lab.reports.plot import require_drawing
    from wavetrim.service.cli.folders import check_folder
    from wavetrim.service.cli.terminal.display import announce_compiling, open_notes, show_share

    bench = _open_bench()
    require_drawing()
    check_folder("--out", out)
    notes = open_notes()
    with announce_compiling(notes), show_share(notes, name) as move:
        report = measure(replace(bench, tell=move))
    finish_report(report, out, wrong)


def _open_bench() -> "Bench":
    """This machine, if it has a GPU.

    Raises:
        DeviceUnavailable: It has none; the message says what is missing.
    """
    from wavetrim.lab.reports.bench import Bench, pick_device
    from wavetrim.service.cli.machine import count_threads, find_devices, load_machine_settings

    settings = load_machine_settings()
    devices = find_devices(settings)
    return Bench(
        device=pick_device(devices, settings.devices),
        others=tuple(devices[1:]),
        cache_dir=settings.kernel_cache_dir,
        cpu_threads=count_threads(settings),
        gpu_memory_bytes=settings.gpu_memory_bytes,
    )


def _make_table(table: "Table") -> "RichTable":
    from rich.table import Table as RichTable

    shown = RichTable()
    for column, name in enumerate(table.head):
        # Heads may take several lines, figures never do.
        least = max(map(len, (*name.split(), *(row[column] for row in table.rows))))
        shown.add_column(name, justify="right" if column else "left", min_width=least)
    for row in table.rows:
        shown.add_row(*row)
    return shown
