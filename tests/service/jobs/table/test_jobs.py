"""The store of jobs over real databases: SQLite and PostgreSQL."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import text

from tests.service.drafts import begin_draft, keep_matrix, run
from wavetrim.service.cursor import decode_mark, encode_mark
from wavetrim.service.errors import CursorUnknown, FieldProblem
from wavetrim.service.jobs.errors import JobStateConflict, OperandNotFound
from wavetrim.service.jobs.job import MOST_TRIES, JobRequest, JobState
from wavetrim.service.jobs.table.rows import make_job
from wavetrim.service.jobs.table.store import JobStore
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
def request_of(matrices):
    """Makes requests over two matrices that exist, or over the results of jobs."""
    ids = [keep_matrix(matrices, 2, 2).id for _ in range(2)]

    def make(*awaited, **options):
        a, b, *_ = [{"job": job.id} for job in awaited] + ids
        return JobRequest(**{"a": a, "b": b} | options).model_dump()

    return make


@pytest.fixture
def add(jobs, request_of):
    return lambda *awaited: post(jobs, request_of(*awaited))[0]


def post(jobs, request, *, idempotency_key=None):
    """Adds one job; returns it, and whether this call made it."""
    new = replace(make_job(request), shape=SHAPE)
    (job,), created = asyncio.run(jobs.add([new], idempotency_key))
    return job, created


@pytest.fixture
def succeed(jobs, matrices):
    """Publishes the product of a job; returns its id."""

    def publish(job):
        draft = begin_draft(matrices, 2, 2)
        done = replace(job, result=draft.matrix.id, plan={}, timings={})
        run(draft.publish(settle=lambda connection: jobs.succeed(connection, [done])))
        return draft.matrix.id

    return publish


def begin(jobs, job):
    """Begins a job's next try, and writes it; returns it as its run knows it."""
    begun = job.begin_try()
    assert jobs.note_try(begun).result()
    return begun


def test_a_job_ends_only_once(jobs, add):
    job = begin(jobs, add())
    ends = [job.cancel(), job.fail("device", "broken")] * 4
    with ThreadPoolExecutor(8) as pool:
        ended = [one for one in pool.map(jobs.end, ends) if one is not None]
    assert len(ended) == 1
    assert jobs.get(job.id) == ended[0]


def test_a_job_that_runs_is_read_as_running_until_its_row_says_that_it_has_ended(
    jobs, add, succeed
):
    first, second = add(), add()
    running = replace(begin(jobs, first), plan={"f": 3}, progress=0.5)
    jobs.running[first.id] = running
    assert jobs.get(first.id) == running
    assert jobs.page(state=JobState.RUNNING)[0] == (running,)
    assert jobs.page(state=JobState.QUEUED)[0] == (second,)
    assert jobs.page()[0] == (second, running)
    counts = jobs.count_by_state()
    assert (counts[JobState.QUEUED], counts[JobState.RUNNING]) == (1, 1)
    succeed(running)
    assert (jobs.get(first.id).state, jobs.get(first.id).attempts) == (JobState.SUCCEEDED, 1)
    assert jobs.page(state=JobState.RUNNING)[0] == ()
    assert jobs.count_by_state()[JobState.RUNNING] == 0


def test_jobs_beyond_the_most_are_forgotten_with_their_labels_the_oldest_first(
    database, jobs, request_of
):
    old, new, queued = (post(jobs, request_of(labels=["night", name]))[0] for name in "abc")
    for job in (old, new):
        jobs.request_cancel(job.id)
    assert jobs.expire(3600.0, start=0.0, most=1) == 1
    assert [job.id for job in jobs.page(labels=["night"])[0]] == [queued.id, new.id]
    with database.connect() as connection:
        labels = list(connection.scalars(text("SELECT label FROM job_labels ORDER BY label")))
    assert labels == ["b", "c", "night", "night"]


def test_nothing_changes_a_finished_job(jobs, add, succeed):
    job = begin(jobs, add())
    succeed(job)
    done = jobs.get(job.id)
    assert not jobs.note_try(job.begin_try()).result()
    assert jobs.end(job.fail("device", "late")) is None
    assert jobs.end(job.cancel()) is None
    assert jobs.queue_again(job, 1) is None
    with pytest.raises(JobStateConflict):
        succeed(job)
    with pytest.raises(JobStateConflict, match="is succeeded; it must be queued or running"):
        jobs.request_cancel(job.id)
    assert jobs.get(job.id) == done


def test_a_run_that_breaks_off_while_it_is_cancelled_never_goes_on(jobs, add):
    for number in range(20):
        job = add().begin_try()
        jobs.running[job.id] = job
        start = threading.Barrier(2)

        def break_off(job=job, start=start, attempts=number % 2):
            start.wait()
            jobs.queue_again(job, attempts)

        def cancel(job=job, start=start):
            start.wait()
            jobs.request_cancel(job.id)

        with ThreadPoolExecutor(2) as pool:
            for one in [pool.submit(break_off), pool.submit(cancel)]:
                one.result()
        cancelled = jobs.get(job.id)
        assert (cancelled.state, cancelled.cancel_requested) == (JobState.CANCELLED, True)
    assert jobs.find(None) == {}


def test_a_restart_settles_what_ran(database, jobs, add):
    fresh, tired, unwanted, earlier, queued = (add() for _ in range(5))
    begin(jobs, fresh)
    for _ in range(MOST_TRIES):
        tired = begin(jobs, tired)
    jobs.running[unwanted.id] = begin(jobs, unwanted)
    assert jobs.request_cancel(unwanted.id).state is JobState.RUNNING
    with database.begin() as connection:  # an earlier version wrote that a job runs
        mark = text("UPDATE jobs SET state = 'running', attempts = 1 WHERE id = :id")
        connection.execute(mark, {"id": earlier.id})
    jobs = JobStore(database)
    assert {job.id: (job.state, job.attempts) for job in jobs.requeue_interrupted()} == {
        fresh.id: (JobState.QUEUED, 1),
        tired.id: (JobState.FAILED, MOST_TRIES),
        unwanted.id: (JobState.CANCELLED, 1),
        earlier.id: (JobState.QUEUED, 1),
    }
    assert jobs.get(tired.id).error["kind"] == "interrupted"
    assert jobs.get(queued.id) == queued
    assert list(jobs.find(None)) == [fresh.id, earlier.id, queued.id]


def test_a_product_is_published_with_its_job_or_not_at_all(jobs, matrices, add, succeed):
    first, second = begin(jobs, add()), begin(jobs, add())
    jobs.end(second.cancel())
    result = succeed(first)
    with pytest.raises(JobStateConflict):
        succeed(second)
    assert matrices.get(result).path.exists()
    assert jobs.get(first.id).result == result
    assert {path.stem for path in matrices.folder.glob("*")} == {first.a, first.b, result}


def test_posts_with_one_key_make_one_job(jobs, request_of):
    def repeat(_number):
        job, created = post(jobs, request_of(), idempotency_key="k")
        return job.id, created

    with ThreadPoolExecutor(12) as pool:
        posted = list(pool.map(repeat, range(12)))
    assert len({job_id for job_id, _ in posted}) == 1
    assert sum(created for _, created in posted) == 1


def test_a_key_stays_with_its_first_request(jobs, request_of):
    first, _ = post(jobs, request_of(), idempotency_key="k" * 255)
    assert jobs.find_repeated([request_of()], "k" * 255) == [first]
    assert jobs.find_repeated([request_of()], "other") == []
    assert jobs.find_repeated([request_of()], None) == []
    with pytest.raises(FieldProblem, match=first.id):
        post(jobs, request_of(f=1), idempotency_key="k" * 255)
    with pytest.raises(FieldProblem):
        jobs.find_repeated([request_of(alpha=2.0)], "k" * 255)


def test_a_cursor_tells_nothing_of_other_callers(jobs, add):
    first, last = add(), add()
    _, cursor = jobs.page(limit=1)
    assert decode_mark(cursor, r"before:(.*)")[1] == last.id
    for owner, job_id in (("another", last.id), (None, "0" * 32)):
        with pytest.raises(CursorUnknown):
            jobs.page(cursor=encode_mark(f"before:{job_id}"), owner=owner)
    assert jobs.page(cursor=cursor) == ((first,), None)


def test_a_matrix_is_deleted_or_used_but_never_both(jobs, matrices, request_of):
    for _ in range(15):
        victim = keep_matrix(matrices, 2, 2).id
        start = threading.Barrier(2)

        def use(victim=victim, start=start):
            start.wait()
            try:
                post(jobs, request_of(c=victim))
            except OperandNotFound:
                return False
            return True

        def delete(victim=victim, start=start):
            start.wait()
            try:
                matrices.delete(victim)
            except MatrixInUse:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            posted, deleted = pool.submit(use), pool.submit(delete)
            assert posted.result() != deleted.result()


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
    assert later.find(None) == {}


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
            except JobStateConflict:
                continue
            assert (job.a == ended) if number % 2 else (job.state is JobState.CANCELLED)


def test_a_thousand_jobs_hear_of_one_end(jobs, succeed, add, request_of):
    first = add()
    rows = [replace(make_job(request_of(first)), shape=SHAPE) for _ in range(1000)]
    added, _ = asyncio.run(jobs.add(rows))
    result = succeed(first)
    assert {job.a for job in jobs.find([job.id for job in added]).values()} == {result}


@pytest.mark.needs("postgresql")
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_post_waits_for_a_delete_that_came_first(database, jobs, request_of):
    request = request_of()
    with database.begin() as deleter:
        deleter.execute(
            text("SELECT id FROM matrices WHERE id = :id FOR UPDATE"), {"id": request["a"]}
        )
        with ThreadPoolExecutor(1) as pool:
            adding = pool.submit(post, jobs, request)
            with pytest.raises(TimeoutError):
                adding.result(timeout=0.3)
            deleter.execute(text("DELETE FROM matrices WHERE id = :id"), {"id": request["a"]})
            deleter.commit()
            with pytest.raises(OperandNotFound):
                adding.result(timeout=10)
