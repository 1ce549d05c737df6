"""The commits that rows of the host benchmark are of, and marks of those before the latest one."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from benchmarks.host_rows import HostResults, HostRow, RegretRow

_SIGNS: Final = "†‡§¶"


@dataclass(frozen=True, slots=True)
class CommitMarks:
    """A mark for each commit before the latest one.

    Attributes:
        signs: Each older commit's, in the order of the rows.
    """

    signs: dict[str, str]

    @classmethod
    def find(cls, results: HostResults) -> Self:
        """Marks of the commits of a results file."""
        rows: list[HostRow | RegretRow] = [*results.rows, *results.regret]
        commits = dict.fromkeys(row.commit for row in rows)
        older = [x for x in commits if x is not None and x != results.document["commit"]]
        rounds = (divmod(place, len(_SIGNS)) for place in range(len(older)))
        signs = [_SIGNS[place] * (again + 1) for again, place in rounds]
        return cls(dict(zip(older, signs, strict=True)))

    def show(self, commits: Iterable[str | None]) -> str:
        """What stands behind a figure of these commits: " †"; nothing if all are the latest."""
        found = set(commits)
        signs = [sign for commit, sign in self.signs.items() if commit in found]
        return f" {' '.join(signs)}" if signs else ""

    def count(self, commits: Iterable[str | None]) -> str:
        """How many there are, and how many of each older commit: "26 (25 †)"."""
        counts = Counter(commits)
        marked = ", ".join(f"{counts[x]} {sign}" for x, sign in self.signs.items() if counts[x])
        return f"{counts.total()} ({marked})" if marked else str(counts.total())

    def explain(self, text: str, words: str = "of commit {}") -> str:
        """What the marks in a text mean, to be put behind a caption; nothing without one.

        Args:
            text: What may have marks.
            words: What is said of a commit.
        """
        seen = set(text.replace(",", " ").replace(")", " ").split())
        meanings = [
            f"; {sign} {words.format(commit)}"
            for commit, sign in self.signs.items()
            if sign in seen
        ]
        return "".join(meanings)
