"""Followers: the jobs that wait for the results of others, by the jobs that they wait for.

Rows say so, too; but to look there at the end of each job would cost a statement. The thread that
changes rows adds followers, too, so that each of them is added before or after an end, never
meanwhile.
"""

from collections.abc import Iterable


class Followers:
    """Which jobs wait for which. Thread-safe.

    A job may be here that waits no more, or was not added after all: its row decides.
    """

    def __init__(self) -> None:
        self._by_awaited: dict[str, dict[str, None]] = {}

    def add(self, job_id: str, awaited: Iterable[str]) -> None:
        """A job waits for others, which have not ended."""
        for one in awaited:
            self._by_awaited.setdefault(one, {})[job_id] = None

    def find(self, job_id: str) -> list[str]:
        """The jobs that wait for a job."""
        return list(self._by_awaited.get(job_id, ()))

    def take(self, job_id: str) -> list[str]:
        """The jobs that have waited for a job, which has ended."""
        return list(self._by_awaited.pop(job_id, ()))
