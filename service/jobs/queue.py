"""The queued jobs that are known in memory.

The queue is in the database. Once that was seen to be empty, memory has the whole queue, since all
new jobs are added here, too. So a job that is posted to an idle service begins without a query.
"""

import heapq
from dataclasses import dataclass, field

from wavetrim.service.errors import ServiceError
from wavetrim.service.jobs.job import Job
from wavetrim.service.jobs.operands import Operands, find_matrices
from wavetrim.service.jobs.table.store import JobStore
from wavetrim.service.storage.matrices.matrices import MatrixStore
from wavetrim.service.threads import run_to_end


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that waits.

    Attributes:
        job: The job.
        operands: Its A, B and C; or the error of finding them.
    """

    job: Job
    operands: Operands | ServiceError

    def __lt__(self, other: "Waiting") -> bool:
        """Whether it runs before another: by priority, then by age."""
        return (-self.job.priority, self.job.sequence) < (-other.job.priority, other.job.sequence)


@dataclass(slots=True)
class KnownQueue:
    """Jobs added since the database was searched. To be used from one event loop.

    Attributes:
        is_complete: Whether these are all jobs that wait.
        looks: How many searches of the database have ended.
    """

    is_complete: bool = False
    looks: int = 0
    _in_doubt: bool = False
    _waiting: list[Waiting] = field(default_factory=list)

    def __len__(self) -> int:
        """The number of known jobs."""
        return len(self._waiting)

    def begin_look(self) -> None:
        """A search of the database begins: it may or may not see jobs added from now on."""
        self._waiting.clear()
        self.is_complete = self._in_doubt = False

    def doubt(self) -> None:
        """A job may wait that is not known here: the database must be searched."""
        self._in_doubt = True
        self.is_complete = False

    def end_look(self, *, found: bool) -> None:
        """The search has ended: if it found no job, those added meanwhile are all."""
        self.looks += 1
        if found:
            self._waiting.clear()
        self.is_complete = not found and not self._in_doubt

    def add(self, waiting: Waiting) -> None:
        """A job was added to the database, and no search that has ended since has found it."""
        heapq.heappush(self._waiting, waiting)

    def remove(self, job_id: str) -> None:
        """A job does not wait any more."""
        self._waiting = [one for one in self._waiting if one.job.id != job_id]
        heapq.heapify(self._waiting)

    async def find_next(self, jobs: JobStore, matrices: MatrixStore) -> Waiting | None:
        """Take out the job to run next; the database is searched if it may have more jobs.

        The job's row is not changed.
        """
        if not self.is_complete:
            self.begin_look()
            waiting = await run_to_end(_read_next, jobs, matrices)
            self.end_look(found=waiting is not None)
            if waiting is not None:
                return waiting
        return self.pop()

    @property
    def highest_priority(self) -> int | None:
        """The highest priority among the known jobs; None without any."""
        return self._waiting[0].job.priority if self._waiting else None

    def pop(self) -> Waiting | None:
        """Take out the known job to run next; None without any."""
        return heapq.heappop(self._waiting) if self._waiting else None


def _read_next(jobs: JobStore, matrices: MatrixStore) -> Waiting | None:
    job = jobs.next_queued()
    if job is None:
        return None
    try:
        return Waiting(job, find_matrices(job, matrices))
    except ServiceError as error:
        return Waiting(job, error)
