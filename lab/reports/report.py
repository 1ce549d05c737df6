"""The report of an experiment, and its files."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from wavetrim.lab.reports.bench import Hardware
from wavetrim.lab.reports.plot import Plot, draw_plot
from wavetrim.lab.reports.table import Row, Table, format_csv, format_markdown


@dataclass(frozen=True, slots=True)
class Report:
    """The report of an experiment.

    Attributes:
        name: Name of the experiment, and prefix of its files.
        title: What was computed.
        hardware: Hardware of the measurement.
        findings: Sentences above the tables.
        tables: Tables, with the reference's figures.
        plots: Plots.
        rows: All figures, as rows of a CSV file.
        passed: Whether every result was right.
    """

    name: str
    title: str
    hardware: Hardware
    findings: tuple[str, ...]
    tables: tuple[Table, ...]
    plots: tuple[Plot, ...]
    rows: tuple[Row, ...]
    passed: bool


def write_report(report: Report, folder: Path) -> tuple[Path, ...]:
    """Write the report as Markdown, CSV and PNG, and return its files.

    Existing files are replaced, but only once all new ones are written.

    Args:
        report: The report.
        folder: Target folder; created if missing.
    """
    files = {f"{report.name}.md": format_report(report).encode()}
    hardware = {"gpu": report.hardware.gpu, "cpu": report.hardware.cpu}
    files[f"{report.name}.csv"] = format_csv([hardware | dict(row) for row in report.rows]).encode()
    for plot in report.plots:
        files[_name_plot(report, plot)] = draw_plot(plot, report.hardware.gpu)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=folder) as unfinished:
        for name, data in files.items():
            (Path(unfinished) / name).write_bytes(data)
        for name in files:
            (Path(unfinished) / name).replace(folder / name)
    return tuple(folder / name for name in files)


def format_report(report: Report) -> str:
    """The report as Markdown."""
    parts = [f"# {report.name}", report.title, f"Measured on {report.hardware}."]
    parts += report.findings
    parts += [f"![{plot.title}]({_name_plot(report, plot)})" for plot in report.plots]
    parts += map(format_markdown, report.tables)
    return "\n\n".join(parts) + "\n"


def _name_plot(report: Report, plot: Plot) -> str:
    return f"{report.name}-{plot.name}.png" if plot.name else f"{report.name}.png"
