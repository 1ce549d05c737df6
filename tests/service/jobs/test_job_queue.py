"""The queue as it is known in memory: never a job that it should not have, never one missing."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wavetrim.service.jobs.job import Job, JobState
from wavetrim.service.jobs.queue import KnownQueue, Waiting
from wavetrim.service.storage.errors import MatrixNotFound

GONE = MatrixNotFound("gone")


def make_waiting(sequence: int, priority: int = 0) -> Waiting:
    nothing: dict[str, Any] = dict.fromkeys(Job.__dataclass_fields__)
    job = Job(**nothing | {"sequence": sequence, "id": f"j{sequence}", "priority": priority})
    return Waiting(replace(job, state=JobState.QUEUED), GONE)


@given(priorities=st.lists(st.integers(-2, 2), max_size=9), removed=st.sets(st.integers(0, 8)))
def test_jobs_leave_by_priority_then_by_age(priorities: list[int], removed: set[int]) -> None:
    queue = KnownQueue()
    queue.begin_look()
    queue.end_look(found=False)
    for sequence, priority in enumerate(priorities):
        queue.add(make_waiting(sequence, priority))
    for sequence in removed:
        queue.remove(f"j{sequence}")
    left = [sequence for sequence in range(len(priorities)) if sequence not in removed]
    expected = sorted(left, key=lambda sequence: (-priorities[sequence], sequence))
    assert queue.highest_priority == (priorities[expected[0]] if expected else None)
    popped = [queue.pop() for _ in expected]
    assert [one.job.sequence for one in popped if one is not None] == expected
    assert queue.pop() is None


def test_nothing_is_known_before_the_database_was_seen_empty() -> None:
    queue = KnownQueue()
    assert not queue.is_complete
    queue.add(make_waiting(1))
    queue.begin_look()
    queue.end_look(found=True)  # perhaps that one
    assert not queue.is_complete
    assert queue.pop() is None


def test_what_is_added_while_the_database_is_seen_empty_is_known() -> None:
    queue = KnownQueue()
    queue.begin_look()
    queue.add(make_waiting(1))
    queue.end_look(found=False)
    assert queue.is_complete
    assert queue.pop() is not None


def test_after_a_doubt_the_database_is_asked_even_if_it_was_being_looked_into() -> None:
    queue = KnownQueue()
    queue.begin_look()
    queue.doubt()
    queue.end_look(found=False)
    assert not queue.is_complete
    queue.begin_look()
    queue.end_look(found=False)
    assert queue.is_complete
    queue.doubt()
    assert not queue.is_complete
