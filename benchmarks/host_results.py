"""What a run of the host benchmark has found so far, and the file that it is written to."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.host_merge import check_environments, merge_results
from benchmarks.host_rows import HostResults, HostRow, RegretRow, replace_rows
from benchmarks.measured import ResultsError


class HostRecord:
    """Rows and refusals, written anew whenever something is found.

    Args:
        out: The results file.
        environment: What the run is measured on.
    """

    def __init__(self, out: Path, environment: Mapping[str, Any]) -> None:
        self._out = out
        self._document = dict(environment)
        self._earlier: HostResults | None = None
        self._left_out: list[str] = []
        self.rows: tuple[HostRow, ...] = ()
        self.regret: tuple[RegretRow, ...] = ()
        self.wrong: list[str] = []

    def keep(self, earlier: HostResults) -> Mapping[str, Any] | None:
        """Write what earlier runs found besides, as far as it is not measured again.

        Returns:
            Their profile; None where the file is of another commit.

        Raises:
            ResultsError: They ran on other hardware, or beside other versions.
        """
        try:
            check_environments(earlier.document, self._document)
        except ResultsError as error:
            raise ResultsError(f"{self._out.name}: {error}") from error
        self._earlier = earlier
        same = earlier.document["commit"] == self._document["commit"]
        return earlier.document.get("profile") if same else None

    def describe(self, **about: Any) -> None:
        """Add to what stands above the rows."""
        self._document |= about

    def add(self, *, rows: Sequence[HostRow] = (), regret: Sequence[RegretRow] = ()) -> None:
        """Add the rows of a contest, or sweeps, in place of what there is of the same."""
        commit = self._document["commit"]
        self.rows = replace_rows(self.rows, [replace(row, commit=commit) for row in rows])
        self.regret = replace_rows(self.regret, [replace(row, commit=commit) for row in regret])

    def refuse(self, name: str, where: str, why: str) -> None:
        """Note a contender that failed at a product."""
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
        name = self._out.stem.removeprefix("host-")
        results = HostResults(name, document, self.rows, self.regret)
        if self._earlier is not None:
            results = merge_results(self._earlier, results)
        results.write(self._out)
