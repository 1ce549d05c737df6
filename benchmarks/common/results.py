"""Results files: what was measured on above, a line for each row below, figures with six digits."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

AnyRow = TypeVar("AnyRow")

_OLD_NAMES: Final = {"contender": "baseline"}
"""Names in rows of files written before 2026-12."""


class ResultsError(Exception):
    """A results file does not have what is read from it; the message names file and lack."""


class Record:
    """What a run has found so far. Its file is written anew whenever something is found.

    Args:
        out: The results file.
        document: What stands above the rows.
        absent: The file's name for the list of what was not measured.

    Attributes:
        document: See above; may be added to.
        rows: What was measured.
        left_out: What was not measured, and why.
        failed: What makes the run fail: wrong products, a service that broke.
    """

    def __init__(self, out: Path, document: Mapping[str, Any], *, absent: str = "left_out") -> None:
        out.parent.mkdir(parents=True, exist_ok=True)
        self._out = out
        self.rows: list[Any] = []
        self.left_out: list[str] = []
        self.failed: list[str] = []
        self.document: dict[str, Any] = {**document, absent: self.left_out}

    def add(self, rows: Sequence[AnyRow], describe: Callable[[AnyRow], str]) -> None:
        """Add rows, print a line about each, and write the file."""
        self.rows += rows
        for row in rows:
            print(describe(row), flush=True)
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


@contextmanager
def read_document(file: Path, command: str) -> Iterator[dict[str, Any]]:
    """A results file's content. What the body finds lacking is told as an error of the file, too.

    Files of before 2026-12 may hold rows of several commits: all of them are named.

    Raises:
        ResultsError: It is no JSON, or the body raised KeyError, TypeError or ValueError.
        OSError: It cannot be read.
    """
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        rows = (*document.get("rows", ()), *document.get("regret", ()))
        commits = [document["commit"], *(row.get("commit") for row in rows)]
        document["commit"] = ", ".join(filter(None, dict.fromkeys(commits)))
        yield document
    except (KeyError, TypeError, ValueError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ResultsError(f"{file.name}: {what}; `{command}` writes it anew") from error


def read_rows(kind: type[AnyRow], rows: Sequence[Mapping[str, Any]]) -> tuple[AnyRow, ...]:
    """Rows as dataclasses. Unknown entries are passed over.

    Raises:
        ValueError: A row lacks a figure that has no default; it is counted from 1.
    """
    known = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    found = []
    for place, row in enumerate(rows, 1):
        renamed = {_OLD_NAMES.get(name, name): of for name, of in row.items()}
        for name, one in known.items():
            if name not in renamed and one.default is one.default_factory is MISSING:
                raise ValueError(f"{kind.__name__} {place} lacks {name!r}")
        found.append(kind(**{name: of for name, of in renamed.items() if name in known}))
    return tuple(found)


def write_document(file: Path, **entries: Any) -> None:
    """Write a file all at once: a run that is cut short leaves the file before.

    Args:
        file: The file.
        entries: Dataclasses are written without what is None by default. An entry has a line of its
            own, and so has each element of a sequence.
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
