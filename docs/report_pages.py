"""Keeps what `wavetrim reproduce` wrote in docs/reproduced/<gpu>/, and lists it in reproduce.md.

What `wavetrim probe` wrote goes into docs/probed/<gpu>/, and is listed in teaching.md, with what
one learns from it.

Run `python -m docs.report_pages FOLDER [FOLDER ...]` with the folders that `--out`
named. Reports that they hold replace those of the same GPU; a wrong product, or a file that is
missing, is refused before anything is written. Without a folder only the lists are written anew.
"""

import argparse
import csv
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.common.environment import name_gpu
from benchmarks.common.tables import ROOT, fill_section, render_table
from docs.report_lessons import read_lessons
from wavetrim.lab.probes.catalog import PROBES
from wavetrim.service.cli.commands.machine.reproduce import EXPERIMENTS

DOCS: Final = ROOT / "docs"
PAGE: Final = DOCS / "reproduce.md"
KEPT: Final = DOCS / "reproduced"
PROBES_PAGE: Final = DOCS / "teaching.md"
PROBES_KEPT: Final = DOCS / "probed"

_MEASURED_ON: Final = re.compile(r"Measured on (.*)\.")
_IMAGE: Final = re.compile(r"^!\[.*\]\(([^()]+)\)$", re.MULTILINE)
_VERDICTS: Final = ("passed", "padding_kept")
_PROBE_NAMES: Final = tuple(probe.name for probe in PROBES)


class RunError(Exception):
    """What an experiment wrote is not whole, or a product was wrong; the message names the file."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one experiment wrote.

    Attributes:
        name: Name of the experiment.
        folder: Where its files lie.
        title: What was computed.
        hardware: What it ran on.
        findings: Sentences about what it found.
        gpu: Name of the GPU.
        images: Names of its plots.
    """

    name: str
    folder: Path
    title: str
    hardware: str
    findings: tuple[str, ...]
    gpu: str
    images: tuple[str, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        """All its files, the report first."""
        names = (f"{self.name}.md", f"{self.name}.csv", *self.images)
        return tuple(self.folder / name for name in names)


def main() -> int:
    """Copy the folders' experiments and write the list."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    try:
        for folder in arguments.folders:
            for run in publish_runs(folder, KEPT, PROBES_KEPT):
                print(f"{run.name} on {run.hardware}")
        pages = {
            PAGE: fill_page(PAGE.read_text(encoding="utf-8"), KEPT),
            PROBES_PAGE: fill_lessons(PROBES_PAGE.read_text(encoding="utf-8"), PROBES_KEPT),
        }
    except RunError as error:
        print(error, file=sys.stderr)
        return 1
    for page, text in pages.items():
        page.write_text(text, encoding="utf-8")
    return 0


def publish_runs(folder: Path, kept: Path, probes_kept: Path | None = None) -> list[Run]:
    """Copy a folder's experiments into <kept>/<gpu>/, and its probes beside or elsewhere.

    Args:
        folder: What `--out` named.
        kept: Folder of the experiments that are kept.
        probes_kept: Folder of the probes that are kept; `kept` when None.

    Raises:
        RunError: There is none, or one is not whole or wrong.
    """
    runs = read_runs(folder)
    if not runs:
        names = ", ".join((*EXPERIMENTS, *_PROBE_NAMES))
        raise RunError(f"{folder}: no NAME.md of {names}")
    for run in runs:
        home = kept if run.name in EXPERIMENTS else probes_kept or kept
        target = home / name_gpu(run.gpu)
        target.mkdir(parents=True, exist_ok=True)
        if (target / run.files[0].name).exists():
            for file in _read_run(target, run.name).files:
                file.unlink()
        for file in run.files:
            shutil.copyfile(file, target / file.name)
    return runs


def fill_page(text: str, kept: Path) -> str:
    """A page with the list of all runs that are kept, in the section "reproduced"."""
    folders = sorted(kept.iterdir()) if kept.is_dir() else []
    runs = [run for folder in folders if folder.is_dir() for run in read_runs(folder)]
    return fill_section(text, "reproduced", render_runs(runs, kept.parent))


def fill_lessons(text: str, kept: Path) -> str:
    """A page with the kept probes and what one learns from them, in the section "probed"."""
    parts = []
    for folder in sorted(kept.iterdir()) if kept.is_dir() else []:
        runs = [run for run in read_runs(folder) if run.name in _PROBE_NAMES]
        lessons = read_lessons(folder, [run.name for run in runs])
        if runs:
            place = folder.relative_to(kept.parent).as_posix()
            rows = [(f"[{name}]({place}/{name}.md)", lesson) for name, lesson in lessons]
            parts.append(render_table(("probe", f"what one learns, on {runs[0].gpu}"), rows))
    return fill_section(text, "probed", "\n\n".join(parts) or "No run is kept here yet.")


def render_runs(runs: Sequence[Run], docs: Path) -> str:
    """A table for each machine, the reports in the order of the command's help."""
    if not runs:
        return "No run is kept here yet."
    machines = dict.fromkeys(run.hardware for run in runs)
    return "\n\n".join(
        f"On {machine}:\n\n{_render_table((x for x in runs if x.hardware == machine), docs)}"
        for machine in machines
    )


def read_runs(folder: Path) -> list[Run]:
    """The experiments and probes that a folder holds, whole and right.

    Raises:
        RunError: One is not.
    """
    names = (*EXPERIMENTS, *_PROBE_NAMES)
    return [_read_run(folder, name) for name in names if (folder / f"{name}.md").exists()]


def _read_run(folder: Path, name: str) -> Run:
    file = folder / f"{name}.md"
    paragraphs = [part.strip() for part in file.read_text(encoding="utf-8").split("\n\n")]
    matches = [_MEASURED_ON.fullmatch(part) for part in paragraphs]
    place, match = next(((at, one) for at, one in enumerate(matches) if one), (0, None))
    if paragraphs[0] != f"# {name}" or match is None or place != 2:
        command = "reproduce" if name in EXPERIMENTS else "probe"
        raise RunError(f"{file}: it is not what `wavetrim {command} {name}` writes")
    rest = paragraphs[place + 1 :]
    images = tuple(image for part in rest for image in _IMAGE.findall(part))
    shown = [at for at, part in enumerate(rest) if part.startswith(("![", "**", "|"))]
    findings = tuple(rest[: min(shown, default=len(rest))])
    run = Run(name, folder, paragraphs[1], match[1], findings, _read_gpu(folder, name), images)
    for needed in run.files:
        if not needed.is_file() or needed.parent.resolve() != folder.resolve():
            raise RunError(f"{file}: {needed.name} does not lie beside it")
    return run


def _read_gpu(folder: Path, name: str) -> str:
    """The GPU that the CSV names in every row, if every product there was right."""
    file = folder / f"{name}.csv"
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines))
    except FileNotFoundError as error:
        raise RunError(f"{file} is missing") from error
    gpus = {row.get("gpu") or "" for row in rows}
    if len(gpus) != 1 or "" in gpus:
        raise RunError(f"{file}: gpu is {sorted(gpus)}; every row must name the same one")
    # Rows of a probe that moved nothing have no verdict.
    if any(row.get("right") == "False" for row in rows) or any(
        row[verdict] != "True" for row in rows for verdict in _VERDICTS if verdict in row
    ):
        raise RunError(f"{file}: a product was wrong")
    return gpus.pop()


def _render_table(runs: Iterable[Run], docs: Path) -> str:
    lines = []
    for run in runs:
        place = run.folder.relative_to(docs).as_posix()
        links = [f"[CSV]({place}/{run.name}.csv)"]
        links += [f"[plot]({place}/{image})" for image in run.images]
        report = f"[{run.name}]({place}/{run.name}.md)"
        lines.append([report, run.title, " ".join(run.findings), ", ".join(links)])
    return render_table(("report", "what was computed", "what was found", "figures"), lines)


if __name__ == "__main__":
    sys.exit(main())
