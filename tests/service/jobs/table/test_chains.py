"""Rows of jobs that wait for others, and labels, over real databases: SQLite and PostgreSQL."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from tests.service.drafts import begin_draft, keep_matrix, run
from wavetrim.service.jobs.errors import OperandEnded
from wavetrim.service.jobs.job import JobState
from wavetrim.service.jobs.request import JobRequest
from wavetrim.service.jobs.table.rows import make_job
from wavetrim.service.jobs.table.store import JobStore, Success
from wavetrim.service.storage.database.shared_commits import SharedCommits
from wavetrim.service.storage.errors import MatrixInUse
from wavetrim.service.storage.matrices.matrices import MatrixStore

SHAPE = (2, 2, "float32", None)


@pytest.fixture
def commits(database):
    return SharedCommits(database)


@pytest.fixture
def jobs(database, commits):
    return JobStore(database, commits)


@pytest.fixture
def matrices(database, commits, tmp_path):
    return MatrixStore(
        database, tmp_path / "matrices", max_matrix_bytes=2**20, max_storage_bytes=2**24,
        commits=commits,
    )  # fmt: skip


@pytest.fixture
def add(jobs, matrices):
    """Adds a job of stored matrices, or of other jobs."""
    stored = keep_matrix(matrices, *SHAPE[:3]).id

    def add_job(*awaited, labels=()):
        named: Any = [{"job": job.id} for job in awaited] + [stored] * 2
        request = JobRequest(a=named[0], b=named[1], labels=list(labels)).model_dump()
        (job,), _ = asyncio.run(jobs.add([make_job(request, shape=SHAPE)]))
        return job

    return add_job


@pytest.fixture
def succeed(jobs, matrices):
    """Publishes the product of a job; returns its id."""

    def publish(job):
        draft = begin_draft(matrices, *SHAPE[:3])
        result = draft.matrix.id
        success = Success(replace(job, result=result, plan={}, timings={}))
        run(draft.publish(settle=lambda connection: jobs.succeed(connection, [success])))
        return result

    return publish


def test_a_result_becomes_an_operand_in_the_transaction_that_publishes_it(
    jobs, matrices, add, succeed
):
    first, second = add(), add()
    both = add(first, second)
    assert both.awaited == [first.id, second.id]
    result = succeed(first)
    half = jobs.get(both.id)
    assert (half.a, half.awaited, half.state) == (result, [second.id], JobState.QUEUED)
    with pytest.raises(MatrixInUse, match=both.id):
        matrices.delete(result)
    other = succeed(second)
    whole = jobs.get(both.id)
    assert (whole.a, whole.b, whole.awaited) == (result, other, [])
    assert whole.request["a"] == {"job": first.id}
    assert jobs.expire(0.0, start=0.0, most=0) == 2  # both are forgotten, and not needed
    assert matrices.expire(1e-9, start=0.0) == [first.a]
    assert set(matrices.find([result, other])) == {result, other}


@pytest.mark.parametrize("runs", [False, True])
def test_a_restart_ends_what_waits_for_a_job_that_it_ends(database, jobs, add, runs):
    first = add()
    second = add(first)
    third = add(second)
    if runs:
        jobs.running[first.id] = first.begin_try()
    jobs.request_cancel(first.id)
    later = JobStore(database)
    settled = later.requeue_interrupted()
    assert [job.id for job in settled] == ([first.id] if runs else [])
    assert later.get(first.id).state is JobState.CANCELLED
    assert later.get(second.id).state is later.get(third.id).state is JobState.CANCELLED
    assert first.id in later.get(third.id).error["message"]
    assert later.list_unfinished() == []


def test_a_job_waits_for_an_end_or_has_heard_of_it_but_never_misses_it(jobs, add, succeed):
    for number in range(10):
        first = add()
        with ThreadPoolExecutor(4) as pool:
            adding = [pool.submit(add, first) for _ in range(3)]
            ending = (
                pool.submit(succeed, first) if number % 2 else pool.submit(jobs.end, first.cancel())
            )
            ended = ending.result()
        for one in adding:
            try:
                job = jobs.get(one.result().id)
            except OperandEnded:
                continue
            assert (job.a == ended) if number % 2 else (job.state is JobState.CANCELLED)


def test_a_thousand_jobs_hear_of_one_end(jobs, matrices, succeed, add):
    first = add()
    request = JobRequest(a={"job": first.id}, b=first.a).model_dump()
    rows = [make_job(request, shape=SHAPE) for _ in range(1000)]
    added, _ = asyncio.run(jobs.add(rows))
    result = succeed(first)
    assert {job.a for job in jobs.find([job.id for job in added]).values()} == {result}
