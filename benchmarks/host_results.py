"""What a run of the host benchmark has found so far, and the file that it is written to."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.host_rows import HostResults, HostRow, RegretRow, format_host_document
from benchmarks.measured import ResultsError


class HostRecord:
    """Rows and refusals, written anew whenever something is found.

    Args:
        out: The results file.
        document: What stands above the rows.
    """

    def __init__(self, out: Path, document: Mapping[str, Any]) -> None:
        self._out = out
        self._document = dict(document)
        self._left_out: list[str] = []
        self.rows: list[HostRow] = []
        self.regret: list[RegretRow] = []
        self.wrong: list[str] = []

    def keep(self, earlier: HostResults) -> None:
        """Take over what an earlier run found; rows measured again replace its own.

        Raises:
            ResultsError: It ran on other hardware, or measured another commit.
        """
        for name in ("hardware", "commit"):
            before, now = earlier.document[name], self._document[name]
            if before != now:
                raise ResultsError(f"{self._out.name}: {name} was {before} and is {now}")
        self.rows, self.regret = list(earlier.rows), list(earlier.regret)
        self._left_out = list(earlier.document.get("left_out", []))

    def add(self, *, rows: Sequence[HostRow] = (), regret: Sequence[RegretRow] = ()) -> None:
        """Add rows, in place of those of the same contender and product."""
        found = {_name_row(row) for row in rows}
        self.rows = [*(row for row in self.rows if _name_row(row) not in found), *rows]
        swept = {_name_regret(row) for row in regret}
        self.regret = [*(row for row in self.regret if _name_regret(row) not in swept), *regret]

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
        unfinished = self._out.with_suffix(".unfinished")
        text = format_host_document(document, self.rows, self.regret)
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(self._out)


def _name_row(row: HostRow) -> tuple[Any, ...]:
    return (*row.shape, row.dtype, row.memory, row.sms, row.contender)


def _name_regret(row: RegretRow) -> tuple[Any, ...]:
    return (*row.shape, row.dtype, row.memory, row.sms)
