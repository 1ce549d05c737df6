"""benchmarks/results/host-<gpu>.json: one run's contests, or its sweeps of F, written and read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from benchmarks.common.environment import name_gpu
from benchmarks.common.results import name_all_commits, read_document, read_rows, write_document
from benchmarks.host.rows import HostRow, SweepRow


@dataclass(frozen=True, slots=True)
class HostResults:
    """A results file.

    Attributes:
        document: What stands above the rows.
        rows: Baselines at products.
        regret: Sweeps of F.
    """

    document: Mapping[str, Any]
    rows: tuple[HostRow, ...] = ()
    regret: tuple[SweepRow, ...] = ()

    @property
    def gpu(self) -> str:
        """A short name of the GPU: "h200"."""
        return name_gpu(self.document["hardware"]["gpu"])

    @property
    def caption(self) -> str:
        """What was measured: hardware, versions, commit."""
        hardware, versions = self.document["hardware"], self.document["versions"]
        names = {"CuPy": "cupy-cuda13x", "PyTorch": "torch", "NumPy": "numpy"}
        shown = [f"{name} {versions[x]}" for name, x in names.items() if x in versions]
        return (
            f"{hardware['gpu']}, driver {hardware['driver']}, beside {hardware['cores']} cores of "
            f"{hardware['cpu']}; {', '.join(shown)}; commit {self.document['commit']}"
        )

    @property
    def left_out(self) -> Sequence[str]:
        """What was not measured, and why."""
        entries: Sequence[str] = self.document.get("left_out", ())
        return entries

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read one file.

        Files of before 2026-12 may hold contests of several commits, with the GPU held to some
        multiprocessors, too. These are passed over, and the caption names all commits.

        Raises:
            ResultsError: It is no JSON, or lacks something.
            OSError: It cannot be read.
        """
        with read_document(file, "make bench-host") as document:
            rows, regret = document.pop("rows"), document.pop("regret")
            name_all_commits(document, [*rows, *regret])
            whole = {document["hardware"].get("sm_count"), None}
            rows = [row for row in rows if row.get("sms") in whole]
            results = cls(document, read_rows(HostRow, rows), read_rows(SweepRow, regret))
            if not ((rows or regret) and results.caption):
                raise ValueError("it has no rows")
        return results

    def write(self, file: Path) -> None:
        """Write it, all at once."""
        write_document(file, **self.document, rows=self.rows, regret=self.regret)


class HostRecord:
    """What a run has found so far, written anew whenever something is found.

    Args:
        out: The results file.
        environment: What the run is measured on, and with which profile.
    """

    def __init__(self, out: Path, environment: Mapping[str, Any]) -> None:
        self._out = out
        self._document = dict(environment)
        self._left_out: list[str] = []
        self.rows: list[HostRow] = []
        self.regret: list[SweepRow] = []
        self.wrong: list[str] = []

    def refuse(self, name: str, where: str, why: str) -> None:
        """Note a baseline that failed at a product."""
        if why.startswith("WrongProductError"):
            self.wrong.append(f"{name} at {where}")
        self.leave_out(f"{name} at {where}", why)

    def leave_out(self, what: str, why: str) -> None:
        """Note what was not measured."""
        self._left_out.append(f"{what}: {why}")
        print(f"left out: {self._left_out[-1]}", flush=True)

    def write(self) -> None:
        """Write the results file."""
        document = {**self._document, "left_out": self._left_out}
        HostResults(document, tuple(self.rows), tuple(self.regret)).write(self._out)


def read_host_results(folder: Path) -> list[HostResults]:
    """All results of machines with a GPU; none where nothing was measured yet.

    Raises:
        ResultsError: One of them lacks something.
    """
    found = (HostResults.read(file) for file in sorted(folder.glob("host-*.json")))
    return [results for results in found if results.document["hardware"]["gpu"]]
