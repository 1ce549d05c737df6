"""The runs that a process has been given and has not ended."""

from collections.abc import Callable
from dataclasses import dataclass

from wavetrim.scheduler.engine.messages import FINAL_TYPES, Message


@dataclass(frozen=True, slots=True)
class _Run:
    number: int
    take: Callable[[Message], None]


class Runs:
    """Who receives the messages about each run, and the number that tells it from other tries."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}
        self._begun = 0

    def begin(self, job_id: str, take: Callable[[Message], None]) -> int:
        """Begin a run; returns its number, which is above those of all earlier ones."""
        self._begun += 1
        self._runs[job_id] = _Run(self._begun, take)
        return self._begun

    def find_number(self, job_id: str) -> int | None:
        """The number of a job's run; None if it has none that goes on."""
        run = self._runs.get(job_id)
        return None if run is None else run.number

    def take(self, message: Message) -> None:
        """Pass a message on, if its run goes on; a final one ends that."""
        is_final = message["type"] in FINAL_TYPES
        run = self._runs.pop(message["job"], None) if is_final else self._runs.get(message["job"])
        if run is not None:
            run.take(message)

    def fail_all(self, text: str) -> None:
        """End all runs: their process is gone."""
        failure = {"type": "failed", "kind": "engine", "message": text}
        runs, self._runs = self._runs, {}
        for job_id, run in runs.items():
            run.take({**failure, "retryable": True, "poisoned": False, "job": job_id})
