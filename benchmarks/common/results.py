"""Results files: first the environment, then a line for each row; figures have six digits."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from benchmarks.common.environment import name_gpu

AnyRow = TypeVar("AnyRow")


class ResultsError(Exception):
    """A results file lacks something that is read; the message names the file and what it lacks."""


class Record:
    """The results of a run so far. The file is written again after each result.

    Args:
        out: The results file.
        document: The entries above the rows.

    Attributes:
        document: The entries above the rows; more may be added.
        rows: What was measured.
        left_out: What was not measured, and why.
        failed: What makes the run fail: wrong products, a service that broke.
    """

    def __init__(self, out: Path, document: Mapping[str, Any]) -> None:
        out.parent.mkdir(parents=True, exist_ok=True)
        self._out = out
        self.rows: list[Any] = []
        self.left_out: list[str] = []
        self.failed: list[str] = []
        self.document: dict[str, Any] = {**document, "left_out": self.left_out}

    def add(self, rows: Sequence[object]) -> None:
        """Add rows, print each, and write the file."""
        self.rows += rows
        for row in rows:
            print(row, flush=True)
        self.write()

    def leave_out(self, what: str, why: str) -> None:
        """Note what was not measured, and write the file."""
        line = f"{what}: {why}"
        if line not in self.left_out:
            self.left_out.append(line)
            print(f"left out: {line}", flush=True)
            self.write()

    def write(self) -> None:
        """Write the file."""
        write_document(self._out, **self.document, rows=self.rows)


@dataclass(frozen=True, slots=True)
class Results(Generic[AnyRow]):
    """A results file.

    Attributes:
        document: The entries above the rows.
        rows: Its rows.
    """

    document: Mapping[str, Any]
    rows: tuple[AnyRow, ...]

    @property
    def gpu(self) -> str:
        """A short name of the GPU: "h200"; empty without one."""
        gpu = self.document["hardware"]["gpu"]
        return name_gpu(gpu) if gpu else ""

    @property
    def gpus(self) -> int:
        """GPUs that were used."""
        return int(self.document.get("gpus", 1)) if self.gpu else 0

    @property
    def hardware(self) -> str:
        """GPUs and cores: "2 H100, 32 cores"."""
        gpus = f"{self.gpus} {self.gpu.upper()}, " if self.gpu else ""
        return f"{gpus}{self.document['hardware']['cores']} cores"

    @property
    def machine(self) -> str:
        """GPUs, cores and commit: "2 H100, 32 cores (ce5bef5)"."""
        return f"{self.hardware} ({self.document['commit']})"


@contextmanager
def read_document(file: Path, command: str) -> Iterator[dict[str, Any]]:
    """A results file's content. If the body finds something missing, the error names the file."""
    try:
        yield json.loads(file.read_text(encoding="utf-8"))
    except (KeyError, TypeError, ValueError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ResultsError(f"{file.name}: {what}; `{command}` writes it anew") from error


def read_results(
    folder: Path, pattern: str, kind: type[AnyRow], command: str
) -> list[Results[AnyRow]]:
    """The results files of a folder whose names match, by name; none if none was written."""
    found = []
    for file in sorted(folder.glob(pattern)):
        with read_document(file, command) as document:
            found.append(Results(document, read_rows(kind, document.pop("rows"))))
    return found


def read_rows(kind: type[AnyRow], rows: Sequence[Mapping[str, Any]]) -> tuple[AnyRow, ...]:
    """Rows as dataclasses. Unknown entries are ignored."""
    known = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    return tuple(kind(**{name: row[name] for name in known & row.keys()}) for row in rows)


def write_document(file: Path, **entries: Any) -> None:
    """Write a file atomically: a run that is cut short leaves the last one.

    Args:
        file: The file.
        entries: Its entries, each on a line, with a line for each element of a sequence. Fields of
            dataclasses that are None by default, and are None, are left out.
    """
    lines = [f"{json.dumps(name)}: {_format(of)}" for name, of in entries.items()]
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text("{\n " + ",\n ".join(lines) + "\n}\n", encoding="utf-8")
    unfinished.replace(file)


def _format(entry: Any) -> str:
    if isinstance(entry, list | tuple) and entry:
        lines = ",\n  ".join(json.dumps(_shorten(one), ensure_ascii=False) for one in entry)
        return f"[\n  {lines}\n ]"
    return json.dumps(entry, ensure_ascii=False)


def _shorten(row: Any) -> Any:
    if not is_dataclass(row) or isinstance(row, type):
        return row
    needless = {one.name for one in fields(row) if one.default is getattr(row, one.name) is None}
    return {name: _round(of) for name, of in asdict(row).items() if name not in needless}


def _round(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _round(of) for name, of in value.items()}
    return [_round(of) for of in value] if isinstance(value, list | tuple) else value
