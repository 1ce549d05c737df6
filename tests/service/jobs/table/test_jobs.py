"""The store of jobs over real databases: SQLite and PostgreSQL."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import text

from tests.service.drafts import begin_draft, keep_matrix, run
from wavetrim.service.cursor import decode_mark, encode_mark
from wavetrim.service.errors import CursorUnknown, FieldProblem
from wavetrim.service.jobs.errors import (
    JobStateConflict,
    OperandNotFound,
)
from wavetrim.service.jobs.job import MOST_TRIES, JobState
from wavetrim.service.jobs.table.changes import Endings, Success, find_key
from wavetrim.service.jobs.table.rows import make_job
from wavetrim.service.jobs.table.store import JobStore
from wavetrim.service.storage.errors import MatrixInUse, MatrixNotFound
from wavetrim.service.storage.matrices.matrices import MatrixStore

PLAN = {"f": 3, "kernel": None}
TIMINGS = {"total_seconds": 0.5}


@pytest.fixture
def jobs(database):
    return JobStore(database)


@pytest.fixture
def matrices(database, tmp_path):
    return MatrixStore(
        database, tmp_path / "matrices", max_matrix_bytes=2**20, max_storage_bytes=2**24
    )


@pytest.fixture
def request_of(matrices):
    """Makes requests over two matrices that exist."""
    ids = [keep_matrix(matrices, 2, 2).id for _ in range(2)]

    def make(**options):
        request = {
            "a": ids[0], "b": ids[1], "c": None, "alpha": 1.0, "beta": 0.0, "kernel": "auto",
            "tile": None, "f": "auto", "accuracy": None, "sms": None, "devices": None,
            "verify": False, "priority": 0,
        }  # fmt: skip
        return request | options

    return make


@pytest.fixture
def add(jobs, request_of):
    def add_job(*, priority=0, **options):
        return post(jobs, request_of(priority=priority, **options))[0]

    return add_job


def post(jobs, request, *, idempotency_key=None):
    """Adds one job; returns it, and whether this call made it."""
    key = idempotency_key and find_key(idempotency_key, "", 0)
    row = make_job(request, shape=(2, 2, "float32"), idempotency_key=key)
    (job,), created = asyncio.run(jobs.add([row], idempotency_key=idempotency_key))
    return job, created


def succeed(database, job, result="r"):
    with database.begin() as connection:
        done = replace(job, result=result, plan=PLAN, timings=TIMINGS)
        Endings().succeed(connection, [Success(done)])


def begin(jobs, job_id):
    """Begins a job's next try, and writes it."""
    return jobs.keep_run(jobs.get(job_id).begin_try(time.time()))


def test_a_new_job_is_queued_as_it_was_asked_for(jobs, request_of):
    request = request_of(alpha=0.1, f=7, tile="128x128x8", priority=3)
    job, created = post(jobs, request)
    assert created
    assert job == jobs.get(job.id)
    assert job.state is JobState.QUEUED
    assert not job.state.finished
    assert (job.request, job.priority, job.attempts, job.progress) == (request, 3, 0, 0.0)
    assert (job.plan, job.result, job.error, job.started_at) == (None, None, None, None)


def test_a_request_of_an_earlier_version_leaves_the_newer_options_open(database, jobs, request_of):
    today = request_of()
    earlier = {
        name: value for name, value in today.items() if name not in ("accuracy", "sms", "devices")
    }
    job, _ = post(jobs, earlier, idempotency_key="k")
    with database.begin() as connection:
        stored = connection.scalar(text("SELECT request FROM jobs"))
        assert "accuracy" not in stored
    assert jobs.get(job.id).request == today
    assert post(jobs, today, idempotency_key="k") == (jobs.get(job.id), False)


def test_a_job_ends_only_once(jobs, add):
    for job in (add(), begin(jobs, add().id)):
        ends = [jobs.cancel, lambda job: jobs.fail(job, "device", "broken")] * 4
        with ThreadPoolExecutor(8) as pool:
            ending = [pool.submit(end, job) for end in ends]
        ended = [one.result() for one in ending if one.result() is not None]
        assert len(ended) == 1
        assert jobs.get(job.id) == ended[0]


def test_a_job_that_has_begun_is_read_as_running_before_its_row_says_so(jobs, add):
    first, second = add(), add()
    running = replace(first.begin_try(time.time()), plan=PLAN, progress=0.5)
    jobs.running[first.id] = running
    assert jobs.get(first.id) == running
    assert (running.state, running.attempts) == (JobState.RUNNING, 1)
    assert jobs.page(state=JobState.RUNNING)[0] == (running,)
    assert jobs.page(state=JobState.QUEUED)[0] == (second,)
    assert jobs.page()[0] == (second, running)
    counts = jobs.count_by_state()
    assert (counts[JobState.QUEUED], counts[JobState.RUNNING]) == (1, 1)
    jobs.keep_run(running)
    jobs.running.clear()
    assert jobs.get(first.id) == running
    assert (jobs.count_by_state()) == counts


def test_the_row_of_a_job_that_has_ended_outranks_its_run(database, jobs, add):
    job = add().begin_try(time.time())
    jobs.running[job.id] = job
    succeed(database, job)
    done = jobs.get(job.id)
    assert (done.state, done.attempts, done.started_at) == (JobState.SUCCEEDED, 1, job.started_at)
    assert jobs.page(state=JobState.RUNNING)[0] == ()
    assert jobs.count_by_state()[JobState.RUNNING] == 0


def test_a_cancel_of_a_job_that_has_begun_is_written_as_such(jobs, add):
    job = add().begin_try(time.time())
    jobs.running[job.id] = job
    marked = jobs.request_cancel(job.id)
    assert (marked.state, marked.cancel_requested) == (JobState.RUNNING, True)
    jobs.running.clear()
    assert jobs.get(job.id) == marked
    (settled,) = jobs.requeue_interrupted()
    assert settled.state is JobState.CANCELLED


def test_a_job_that_was_cancelled_as_it_began_does_not_go_on(database, jobs, add):
    job = add().begin_try(time.time())
    jobs.request_cancel(job.id)
    assert jobs.keep_run(job) is None
    assert jobs.break_off(job, counts=True) is None
    with pytest.raises(JobStateConflict):
        succeed(database, job)
    assert jobs.get(job.id).state is JobState.CANCELLED


def test_a_success_keeps_plan_timings_and_result(database, jobs, add):
    job = replace(begin(jobs, add().id), plan={"f": 1}, progress=0.25)
    jobs.keep_run(job)
    assert (jobs.get(job.id).plan, jobs.get(job.id).progress) == ({"f": 1}, 0.25)
    succeed(database, job)
    done = jobs.get(job.id)
    assert (done.state, done.progress, done.result) == (JobState.SUCCEEDED, 1.0, "r")
    assert (done.plan, done.timings, done.verification) == (PLAN, TIMINGS, None)
    assert done.finished_at >= done.started_at >= done.created_at


def test_nothing_changes_a_finished_job(database, jobs, add):
    job = begin(jobs, add().id)
    succeed(database, job)
    done = jobs.get(job.id)
    assert jobs.keep_run(job.begin_try(0.0)) is None
    assert jobs.fail(job, "device", "late") is None
    assert jobs.cancel(job) is None
    assert jobs.break_off(job, counts=False) is None
    assert jobs.break_off(job, counts=True) is None
    with pytest.raises(JobStateConflict):
        succeed(database, job, "other")
    with pytest.raises(JobStateConflict, match="is succeeded; it must be queued or running"):
        jobs.request_cancel(job.id)
    assert jobs.get(job.id) == done


def test_a_product_is_published_with_its_job_or_not_at_all(database, jobs, matrices, add):
    first, second = begin(jobs, add().id), begin(jobs, add().id)
    jobs.cancel(second)
    products = []
    for job in (first, second):
        draft = begin_draft(matrices, 2, 2)
        products.append(pending := draft.matrix)

        def settle(connection, job=job, pending=pending):
            done = replace(job, result=pending.id, plan={}, timings={})
            jobs.endings.succeed(connection, [Success(done)])

        if job is first:
            run(draft.publish(settle=settle))
        else:
            with pytest.raises(JobStateConflict):
                run(draft.publish(settle=settle))
    assert matrices.get(products[0].id).path.exists()
    assert jobs.get(first.id).result == products[0].id
    with pytest.raises(MatrixNotFound):
        matrices.get(products[1].id)
    assert {path.stem for path in matrices.folder.glob("*")} == {
        first.a, first.b, products[0].id,
    }  # fmt: skip


def test_a_queued_job_is_cancelled_at_once_and_a_running_one_marked(jobs, add):
    queued, running = add(), add()
    begin(jobs, running.id)
    assert jobs.request_cancel(queued.id).state is JobState.CANCELLED
    marked = jobs.request_cancel(running.id)
    assert (marked.state, marked.cancel_requested) == (JobState.RUNNING, True)
    assert jobs.cancel(running).state is JobState.CANCELLED
    again = jobs.request_cancel(queued.id)
    assert again == jobs.get(queued.id)
    assert again.finished_at is not None
    assert jobs.list_unfinished() == []


def test_a_released_job_waits_as_if_it_had_not_been_tried(jobs, add):
    job = replace(begin(jobs, add().id), plan=PLAN, progress=0.7)
    jobs.keep_run(job)
    released = jobs.break_off(job, counts=False)
    assert (released.state, released.attempts, released.progress, released.plan) == (
        JobState.QUEUED, 0, 0.0, None,
    )  # fmt: skip


@pytest.mark.parametrize("written", [False, True])
def test_a_job_that_is_released_after_its_cancellation_is_cancelled(database, jobs, add, written):
    job = add().begin_try(time.time())
    jobs.running[job.id] = job
    if written:
        jobs.keep_run(job)
    marked = jobs.request_cancel(job.id)
    assert (marked.state, marked.cancel_requested) == (JobState.RUNNING, True)
    released = jobs.break_off(job, counts=False)
    assert (released.state, released.attempts) == (JobState.CANCELLED, 1)
    assert released.finished_at >= released.started_at == job.started_at
    assert jobs.get(job.id) == released
    jobs.running.clear()
    later = JobStore(database)
    assert later.requeue_interrupted() == ()
    assert later.list_unfinished() == []
    assert later.count_by_state()[JobState.CANCELLED] == 1


def test_a_cancelled_job_that_an_earlier_version_has_queued_again_never_runs(database, jobs, add):
    unwanted, waiting = add(priority=1), add()
    with database.begin() as connection:
        mark = text("UPDATE jobs SET cancel_requested = :yes WHERE id = :id")
        connection.execute(mark, {"yes": True, "id": unwanted.id})
    (settled,) = jobs.requeue_interrupted()
    assert (settled.id, settled.state) == (unwanted.id, JobState.CANCELLED)
    assert settled.finished_at is not None
    assert jobs.list_unfinished() == [waiting]
    assert jobs.requeue_interrupted() == ()


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("has_ended", [False, True])
def test_a_run_that_breaks_off_during_a_cancellation_leaves_no_running_job(
    jobs, add, monkeypatch, counts, has_ended
):
    job = add().begin_try(time.time())
    jobs.running[job.id] = job
    get = jobs.get

    def break_off(job_id, owner=None):
        found = get(job_id, owner)
        monkeypatch.undo()
        assert jobs.break_off(job, counts=counts).state is JobState.QUEUED
        if has_ended:
            del jobs.running[job.id]
        return found

    monkeypatch.setattr(jobs, "get", break_off)
    cancelled = jobs.request_cancel(job.id)
    assert (cancelled.state, cancelled.cancel_requested) == (JobState.CANCELLED, True)
    jobs.running.clear()
    assert jobs.get(job.id) == cancelled
    assert jobs.list_unfinished() == []


@pytest.mark.parametrize("counts", [False, True])
def test_a_run_that_breaks_off_while_it_is_cancelled_never_goes_on(jobs, add, counts):
    for _ in range(20):
        job = add().begin_try(time.time())
        jobs.running[job.id] = job
        start = threading.Barrier(2)

        def break_off(job=job, start=start):
            start.wait()
            jobs.break_off(job, counts=counts)
            del jobs.running[job.id]

        def cancel(job=job, start=start):
            start.wait()
            jobs.request_cancel(job.id)

        with ThreadPoolExecutor(2) as pool:
            for one in [pool.submit(break_off), pool.submit(cancel)]:
                one.result()
        assert jobs.get(job.id).state is JobState.CANCELLED


def test_a_restart_settles_what_ran(jobs, add):
    fresh, tired, unwanted, queued = (add() for _ in range(4))
    for job in (fresh, tired, unwanted):
        begin(jobs, job.id)
    for _ in range(MOST_TRIES - 1):
        begin(jobs, tired.id)
    jobs.request_cancel(unwanted.id)
    settled = {job.id: job.state for job in jobs.requeue_interrupted()}
    assert settled == {
        fresh.id: JobState.QUEUED,
        tired.id: JobState.FAILED,
        unwanted.id: JobState.CANCELLED,
    }
    assert jobs.get(fresh.id).attempts == 1
    assert jobs.get(tired.id).error["kind"] == "interrupted"
    assert jobs.get(queued.id) == queued
    assert [job.id for job in jobs.list_unfinished()] == [fresh.id, queued.id]


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


def test_pages_show_the_newest_first_and_do_not_shift(jobs, add):
    made = [add() for _ in range(5)]
    page, cursor = jobs.page(limit=2)
    assert [job.id for job in page] == [made[4].id, made[3].id]
    add()
    page, cursor = jobs.page(limit=2, cursor=cursor)
    assert [job.id for job in page] == [made[2].id, made[1].id]
    page, cursor = jobs.page(limit=2, cursor=cursor)
    assert [job.id for job in page] == [made[0].id]
    assert cursor is None


def test_pages_are_filtered_by_state(jobs, add):
    made = [add() for _ in range(4)]
    for job in made[::2]:
        jobs.request_cancel(job.id)
    page, cursor = jobs.page(state=JobState.CANCELLED, limit=1)
    rest, end = jobs.page(state=JobState.CANCELLED, limit=1, cursor=cursor)
    assert [page[0].id, rest[0].id] == [made[2].id, made[0].id]
    assert end is None
    assert jobs.page(state=JobState.RUNNING) == ((), None)


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


@pytest.mark.needs("postgresql")
@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
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
