"""Copies what `wavetrim probe` wrote to docs/probed/<gpu>/, and lists it in teaching.md.

Run `python -m docs.report_pages FOLDER [FOLDER ...]` with the folders that `--out` named. Their
reports replace those of the same GPU. A wrong result or a missing file is refused before anything
is written. Without a folder only the list is rewritten.
"""

import argparse
import csv
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.common.environment import name_gpu
from benchmarks.common.tables import ROOT, fill_section, render_table
from docs.report_lessons import read_lessons
from wavetrim.lab.probes.catalog import PROBES

DOCS: Final = ROOT / "docs"
PAGE: Final = DOCS / "teaching.md"
KEPT: Final = DOCS / "probed"

_MEASURED_ON: Final = re.compile(r"Measured on .*\.")
_IMAGE: Final = re.compile(r"^!\[.*\]\(([^()]+)\)$", re.MULTILINE)
_NAMES: Final = tuple(probe.name for probe in PROBES)


class RunError(Exception):
    """A probe's report is incomplete, or a result was wrong; the message names the file."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one probe wrote.

    Attributes:
        name: Name of the probe.
        folder: Where its files lie.
        gpu: Name of the GPU.
        images: Names of its plots.
    """

    name: str
    folder: Path
    gpu: str
    images: tuple[str, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        """All its files, the report first."""
        names = (f"{self.name}.md", f"{self.name}.csv", *self.images)
        return tuple(self.folder / name for name in names)


def main() -> int:
    """Copy the folders' probes and write the list."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    try:
        for folder in arguments.folders:
            for run in publish_runs(folder, KEPT):
                print(f"{run.name} on {run.gpu}")
        text = fill_lessons(PAGE.read_text(encoding="utf-8"), KEPT)
    except RunError as error:
        print(error, file=sys.stderr)
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


def publish_runs(folder: Path, kept: Path) -> list[Run]:
    """Copy the probes of a folder, which `--out` named, into <kept>/<gpu>/.

    Raises:
        RunError: There is none, or one is incomplete or wrong.
    """
    runs = read_runs(folder)
    if not runs:
        raise RunError(f"{folder}: no NAME.md of {', '.join(_NAMES)}")
    for run in runs:
        target = kept / name_gpu(run.gpu)
        target.mkdir(parents=True, exist_ok=True)
        if (target / run.files[0].name).exists():
            for file in _read_run(target, run.name).files:
                file.unlink()
        for file in run.files:
            shutil.copyfile(file, target / file.name)
    return runs


def fill_lessons(text: str, kept: Path) -> str:
    """A page whose section "probed" lists the probes in `kept`, and what one learns from them."""
    parts = []
    for folder in sorted(kept.iterdir()) if kept.is_dir() else []:
        runs = read_runs(folder)
        lessons = read_lessons(folder, [run.name for run in runs])
        if runs:
            path = folder.relative_to(kept.parent).as_posix()
            rows = [(f"[{name}]({path}/{name}.md)", lesson) for name, lesson in lessons]
            parts.append(render_table(("probe", f"what one learns, on {runs[0].gpu}"), rows))
    return fill_section(text, "probed", "\n\n".join(parts) or "No run is kept here yet.")


def read_runs(folder: Path) -> list[Run]:
    """The probes in a folder.

    Raises:
        RunError: One is incomplete or wrong.
    """
    return [_read_run(folder, name) for name in _NAMES if (folder / f"{name}.md").exists()]


def _read_run(folder: Path, name: str) -> Run:
    file = folder / f"{name}.md"
    paragraphs = [part.strip() for part in file.read_text(encoding="utf-8").split("\n\n")]
    if paragraphs[0] != f"# {name}" or not _MEASURED_ON.fullmatch("".join(paragraphs[2:3])):
        raise RunError(f"{file}: it is not what `wavetrim probe {name}` writes")
    images = tuple(image for part in paragraphs for image in _IMAGE.findall(part))
    run = Run(name, folder, _read_gpu(folder, name), images)
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
    if any(row.get("right") == "False" for row in rows):
        raise RunError(f"{file}: a result was wrong")
    return gpus.pop()


if __name__ == "__main__":
    sys.exit(main())
