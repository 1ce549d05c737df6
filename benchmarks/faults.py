"""What happens to accepted jobs and stored matrices under faults, each tried many times.

Run `python -m benchmarks.faults`; no GPU is needed, and some faults need root, PostgreSQL or a C
compiler. It writes benchmarks/results/faults.json: for each fault of `tests/faults` the number of
tries, of jobs and matrices accepted during them, how many of these were lost, doubled or damaged,
and how long the service took to compute again. It exits with 1 if any was lost, doubled or damaged.
`render_faults` makes the table in docs/operations.md.
"""

import argparse
import json
import random
import sys
import traceback
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest

from benchmarks.common.environment import describe_environment
from benchmarks.common.results import write_document
from benchmarks.common.tables import RESULTS, render_table, show
from tests.faults.catalog import FAULTS, SIGNALS, SLOW
from tests.faults.fault import Stage
from tests.faults.ledger import Outcome

ROUNDS: Final = 200
"""Tries of all signals together."""

_OTHERS: Final = 40
_SLOW: Final = 100
"""Rounds for one try of a fault that is not a signal, and for one of a slow fault."""

WRONG: Final = ("lost", "doubled", "damaged", "unexplained")
"""Counts of what must not happen."""

FAULT_GROUPS: Final = {
    "engine or service is killed, stopped or hangs": ("kill-", "stop-", "engine-"),
    "the database is locked, restored or restarted": ("database-",),
    "an operand's file is changed or replaced": ("file-",),
    "the same, and the engine reads the file itself": ("mapped-file-",),
    "disk, arena, /dev/shm, memory or descriptors are used up": (
        "disk-", "arena-", "shared-memory-", "few-", "small-group",
    ),
    "callers stall, trickle or vanish": ("bad-callers",),
}  # fmt: skip
"""What the page says of faults whose names begin alike."""


def main() -> int:
    """Try all, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="tries of all signals together")
    parser.add_argument("--only", nargs="+", choices=FAULTS, default=list(FAULTS), metavar="NAME")
    parser.add_argument("--seed", type=int, default=15)
    arguments = parser.parse_args()
    document: dict[str, Any] = {**describe_environment(), "seed": arguments.seed, "rows": []}
    for name in arguments.only:
        row = try_fault(name, count_tries(name, arguments.rounds), arguments.seed)
        document["rows"].append(row)
        print(json.dumps(row), flush=True)
        write_document(RESULTS / "faults.json", **document)
    return 1 if any(row["broken"] for row in document["rows"]) else 0


def count_tries(name: str, rounds: int) -> int:
    """Tries of a fault, if there are `rounds` tries of all signals together."""
    if name in SIGNALS:
        return -(-rounds // len(SIGNALS))
    return -(-rounds // (_SLOW if name in SLOW else _OTHERS))


def try_fault(name: str, tries: int, seed: int) -> dict[str, Any]:
    """Put one service through a fault, again and again; a row of the results."""
    fault, chance = FAULTS[name](), random.Random(f"{seed} {name}")
    outcomes: list[Outcome] = []
    missing = broken = None
    with TemporaryDirectory(prefix="wavetrim-faults-") as folder:
        try:
            with ExitStack() as stack:
                stage = Stage(fault, Path(folder), stack)
                for _ in range(tries):
                    outcomes.append(stage.put_through(fault, chance))
                    for note in outcomes[-1].notes:
                        print(f"{name}: {note}", file=sys.stderr, flush=True)
        except pytest.skip.Exception as skipped:
            missing = str(skipped)
        except Exception as error:
            traceback.print_exc()
            broken = f"{type(error).__name__}: {error}"
    row = {"fault": name, "what": fault.told, "tries": len(outcomes), **sum_up(outcomes)}
    if missing is not None:
        row["not_tried"] = missing
    wrong = [f"{row[what]} {what}" for what in WRONG if row[what]]
    row["broken"] = broken or ", ".join(wrong) or None
    return row


def sum_up(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Counts of all tries, and the most seconds that one took to recover."""
    names = ("accepted", *WRONG, "failed")
    counts = {name: sum(getattr(outcome, name) for outcome in outcomes) for name in names}
    worst_seconds = max((outcome.seconds for outcome in outcomes), default=None)
    return {**counts, "worst_seconds": worst_seconds and round(worst_seconds, 3)}


def render_faults(file: Path) -> str:
    """The table of faults, below a line with the hardware."""
    document = json.loads(file.read_text(encoding="utf-8"))
    hardware, versions = document["hardware"], document["versions"]
    caption = (
        f"{hardware['cores']} cores of {hardware['cpu']}, Python {versions['python']}, "
        f"commit {document['commit']}:"
    )
    head = ("fault", "tries", "accepted", "failed with reason", "wrong", "worst s")
    groups: dict[str, list[dict[str, Any]]] = {told: [] for told in FAULT_GROUPS}
    for row in document["rows"]:
        groups[find_group(row["fault"])].append(row)
    cells = (list_fault_cells(told, rows) for told, rows in groups.items() if rows)
    return f"{caption}\n\n{render_table(head, cells)}"


def find_group(fault: str) -> str:
    """The words of the group that has a fault."""
    (told,) = (told for told, begins in FAULT_GROUPS.items() if fault.startswith(begins))
    return told


def list_fault_cells(told: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    """One row of the table: sums of the faults of a group, and their longest recovery."""
    missing = [row["what"] for row in rows if not row["tries"]]
    if missing:
        told = f"{told}; not tried: {', '.join(missing)}"
    counts = (sum(row[name] for row in rows) for name in ("tries", "accepted", "failed"))
    wrong = sum(row[name] for row in rows for name in WRONG)
    worst = max((row["worst_seconds"] for row in rows if row["tries"]), default=None)
    return [told, *map(str, counts), str(wrong), show(worst, ".1f")]


if __name__ == "__main__":
    sys.exit(main())
