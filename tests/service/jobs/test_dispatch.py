"""The dispatcher over a real database, real files and a real engine process."""

import asyncio
import os
import signal

import numpy as np
import pytest
from sqlalchemy.exc import OperationalError

from tests.environment import clear_environment
from tests.matrices import make_matrix
from tests.postgres import running_postgres
from tests.service.parts import ask, make_parts, running_parts
from wavetrim.service.jobs.job import JobState
from wavetrim.service.jobs.run import LiveJob
from wavetrim.service.jobs.table.rows import make_job


def run(folder, scenario, **settings):
    """Runs a scenario over parts that are started before it and stopped after it."""

    async def start_and_stop():
        async with asyncio.timeout(100), running_parts(folder, **settings) as parts:
            await scenario(parts)

    asyncio.run(start_and_stop())


@pytest.fixture(scope="module")
def run_shared(tmp_path_factory):
    """Runs scenarios one after the other over the same parts, of the usual settings."""
    with asyncio.Runner() as runner:
        running = running_parts(tmp_path_factory.mktemp("parts"))
        parts = runner.run(running.__aenter__())

        async def run_scenario(scenario):
            async with asyncio.timeout(100):
                await scenario(parts)

        yield lambda scenario: runner.run(run_scenario(scenario))
        runner.run(running.__aexit__(None, None, None))


async def finish(parts, *operands, **options):
    """Submits a job and waits for its end."""
    job, _ = await parts.submit(ask(*operands, **options))
    return await parts.dispatcher.wait(job.id)


async def wait_for_progress(parts, job_id, attempt=1):
    """Returns the job once some of a try is done."""
    while True:
        job = await asyncio.to_thread(parts.jobs.get, job_id)
        if (job.attempts >= attempt and job.progress > 0) or job.state.finished:
            return job
        await asyncio.sleep(0.05)


def count_ended(parts, state):
    value: float = parts.metrics.jobs_finished.labels(state)._value.get()
    return value


def test_a_job_runs_once_though_its_caller_left_before_it_was_committed(run_shared, monkeypatch):
    begun: list[str] = []
    run_tries = LiveJob.run_tries

    async def note_run(live):
        begun.append(live.job.id)
        return await run_tries(live)

    monkeypatch.setattr(LiveJob, "run_tries", note_run)

    async def scenario(parts):
        a = parts.store(make_matrix(30, 30, "float32", seed=1))
        with parts.database.begin():  # so that the commit waits
            posting = asyncio.create_task(parts.submit(ask(a, a)))
            await asyncio.sleep(0.1)
            posting.cancel()
            await asyncio.sleep(0.1)
        await asyncio.wait({posting})
        assert posting.cancelled()
        (job,) = (await asyncio.to_thread(parts.jobs.page, limit=1))[0]
        assert (await parts.dispatcher.wait(job.id)).state is JobState.SUCCEEDED
        await finish(parts, a, a)
        assert begun.count(job.id) == 1

    run_shared(scenario)


def test_a_try_that_fails_early_leaves_its_plan(run_shared, monkeypatch):
    async def scenario(parts):
        a = parts.store(make_matrix(30, 30, "float32", seed=1))
        begun = await parts.submit(ask(a, a))
        original = parts.engine.start_run
        failure = {"type": "failed", "kind": "verification", "message": "no", "retryable": False}

        def run_and_fail(message, take):
            def spoil(event):
                take({**event, **failure} if event["type"] == "succeeded" else event)

            original(message, spoil)

        monkeypatch.setattr(parts.engine, "start_run", run_and_fail)
        job = await parts.dispatcher.wait(begun[0].id)
        assert job.state is JobState.FAILED
        assert (job.plan or {})["f"] == 30

    run_shared(scenario)


def test_a_job_that_fails_every_time_says_so_and_leaves_no_file(tmp_path):
    async def scenario(parts):
        a = parts.store_slow_operand()
        job, _ = await parts.submit(ask(a, a))
        for attempt in (1, 2, 3):
            await wait_for_progress(parts, job.id, attempt)
            assert parts.engine.pid is not None
            os.kill(parts.engine.pid, signal.SIGKILL)
        failed = await parts.dispatcher.wait(job.id)
        assert failed.state is JobState.FAILED
        assert failed.error is not None
        assert (failed.error["kind"], failed.error["attempts"]) == ("engine", 3)
        assert "killed by signal 9" in failed.error["message"]
        assert count_ended(parts, "failed") == 1
        assert [path.stem for path in parts.matrices.folder.iterdir()] == [a]
        small = parts.store(make_matrix(4, 4, "float32", seed=1))
        assert (await finish(parts, small, small)).state is JobState.SUCCEEDED

    run(tmp_path, scenario)


def test_a_gpu_that_breaks_twice_leaves_the_last_try_to_the_cpu_alone(
    tmp_path, monkeypatch, caplog
):
    """Every run of the engine that may use a GPU meets a CUDA error that poisons its context."""
    (tmp_path / "sitecustomize.py").write_text(
        """
import wavetrim.scheduler.engine.run
from wavetrim.scheduler.errors import ExecutionError

open_product = wavetrim.scheduler.engine.run.open_product

def break_down(request, *others):
    if not request.cpu_only:
        raise ExecutionError("CUDA_ERROR_ILLEGAL_ADDRESS", poisoned=True)
    return open_product(request, *others)

wavetrim.scheduler.engine.run.open_product = break_down
"""
    )
    monkeypatch.setenv("PYTHONPATH", clear_environment(tmp_path)["PYTHONPATH"])

    async def scenario(parts):
        a = make_matrix(4, 4, "float32", seed=1)
        a_id = parts.store(a)
        done = await finish(parts, a_id, a_id)
        assert (done.state, done.attempts) == (JobState.SUCCEEDED, 3)
        assert np.allclose(parts.load(done.result), a @ a, atol=1e-5)
        assert parts.engine.restarts == 2

    run(tmp_path / "data", scenario)
    assert caplog.text.count("CUDA_ERROR_ILLEGAL_ADDRESS") >= 2
    assert caplog.text.count("exit status 70") == 2


def test_an_engine_that_does_not_hear_a_cancel_is_replaced(run_shared, monkeypatch):
    monkeypatch.setattr("wavetrim.service.jobs.lanes.engine_queue.STOP_GRACE_SECONDS", 0.5)

    async def scenario(parts):
        a = parts.store_slow_operand()
        job, _ = await parts.submit(ask(a, a))
        await wait_for_progress(parts, job.id)
        restarts = parts.engine.restarts
        assert parts.engine.pid is not None
        os.kill(parts.engine.pid, signal.SIGSTOP)
        await parts.dispatcher.cancel(job.id)
        assert (await parts.dispatcher.wait(job.id)).state is JobState.CANCELLED
        assert parts.engine.restarts <= restarts + 1
        small = parts.store(make_matrix(4, 4, "float32", seed=1))
        assert (await finish(parts, small, small)).state is JobState.SUCCEEDED
        assert parts.engine.restarts == restarts + 1

    run_shared(scenario)


@pytest.mark.needs("postgresql")
def test_a_job_outlives_a_restart_of_the_database(tmp_path):
    with running_postgres() as server:

        async def scenario(parts):
            a = parts.store_slow_operand(1000)
            job, _ = await parts.submit(ask(a, a))
            waiting = asyncio.create_task(parts.dispatcher.wait(job.id))
            await wait_for_progress(parts, job.id)
            await asyncio.to_thread(server.stop)
            await parts.engines.wait_idle()
            await asyncio.sleep(0.5)  # the product is ready, and cannot be published
            assert not waiting.done()
            await asyncio.to_thread(server.start)
            done = await waiting
            assert (done.state, done.attempts) == (JobState.SUCCEEDED, 2)
            array = parts.load(a)
            assert np.array_equal(parts.load(done.result)[::500], array[::500] @ array)

        run(tmp_path, scenario, database_url=server.url)


def test_a_job_that_is_cancelled_as_it_is_queued_again_has_ended(run_shared, monkeypatch):
    async def scenario(parts):
        loop = asyncio.get_running_loop()
        queue_again = parts.jobs.queue_again

        def queue_and_cancel(*given):
            queued = queue_again(*given)
            asyncio.run_coroutine_threadsafe(parts.dispatcher.cancel(queued.id), loop).result()
            return queued

        def break_off(*_others):
            raise OperationalError("SELECT", {}, Exception("the database is away"))

        monkeypatch.setattr(parts.jobs, "queue_again", queue_and_cancel)
        monkeypatch.setattr(parts.matrices, "load", break_off)
        a = parts.store(make_matrix(30, 30, "float32", seed=1))
        with parts.dispatcher.live.news.listen() as listener:
            job, _ = await parts.submit(ask(a, a))
            while (await listener.wait(None))[-1].state is not JobState.CANCELLED:
                pass
            assert await listener.wait(0.3) == (), "nothing more is told of it"
        assert (await parts.dispatcher.get(job.id)).state is JobState.CANCELLED
        assert parts.dispatcher.live.find(job.id) is None

    run_shared(scenario)


def test_a_stop_while_a_try_is_written_leaves_its_job_as_if_it_had_not_begun(tmp_path):
    before = make_parts(tmp_path)
    operand = before.store(np.ones((2, 2), np.float32))
    asked = ask(operand, operand).model_dump()
    (job,), _ = asyncio.run(before.jobs.add([make_job(asked)]))
    before.database.dispose()

    async def scenario():
        async with running_parts(tmp_path) as parts:
            with parts.database.begin():  # so that the write waits
                while not parts.dispatcher.live.running:  # noqa: ASYNC110 # nothing tells
                    await asyncio.sleep(0.01)
                stopping = asyncio.create_task(parts.dispatcher.stop())
                await asyncio.sleep(0.1)
            await stopping
            ended = parts.jobs.get(job.id)
            assert (ended.state, ended.attempts) == (JobState.QUEUED, 0)

    asyncio.run(asyncio.wait_for(scenario(), 60))
