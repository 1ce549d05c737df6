"""Results files: what was measured on above, a line for each row below, figures with six digits."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

AnyRow = TypeVar("AnyRow")

_OLD_NAMES: Final = {"contender": "baseline"}


class ResultsError(Exception):
    """A results file does not have what is read from it; the message names file and lack."""


@contextmanager
def read_document(file: Path, command: str) -> Iterator[dict[str, Any]]:
    """A results file's content. What the body finds lacking, too, is told as an error of the file.

    Args:
        file: The file.
        command: What writes it anew.

    Raises:
        ResultsError: It is no JSON, or the body raised KeyError, TypeError or ValueError.
        OSError: It cannot be read.
    """
    try:
        yield json.loads(file.read_text(encoding="utf-8"))
    except (KeyError, TypeError, ValueError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ResultsError(f"{file.name}: {what}; `{command}` writes it anew") from error


def read_rows(kind: type[AnyRow], rows: Sequence[Mapping[str, Any]]) -> tuple[AnyRow, ...]:
    """Rows as dataclasses. What newer files have besides is passed over.

    Baselines were called contenders before 2026-12.

    Raises:
        ValueError: One of them lacks a figure that has no default; it is counted from 1.
    """
    names = [one.name for one in fields(kind)]  # type: ignore[arg-type]
    needed = [
        one.name
        for one in fields(kind)  # type: ignore[arg-type]
        if one.default is MISSING and one.default_factory is MISSING
    ]
    renamed = [{_OLD_NAMES.get(name, name): of for name, of in row.items()} for row in rows]
    for place, row in enumerate(renamed, 1):
        if missing := [name for name in needed if name not in row]:
            raise ValueError(f"{kind.__name__} {place} lacks {missing[0]!r}")
    return tuple(kind(**{name: row[name] for name in names if name in row}) for row in renamed)


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


def name_all_commits(document: dict[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Name the commits of all rows: files of before 2026-12 may hold several."""
    commits = [document["commit"], *(row.get("commit") for row in rows)]
    document["commit"] = ", ".join(filter(None, dict.fromkeys(commits)))


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
