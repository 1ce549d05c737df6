"""Products at the nodes of a cluster: moved when a node is lost, and stopped."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from tests.service.jobs.silent_cluster import SilentCluster
from tests.service.parts import ask, running_parts
from wavetrim.service.jobs.job import JobState


def test_this_machine_computes_what_a_lost_node_has_left_in_the_same_try(tmp_path):
    cluster = SilentCluster(tmp_path)

    async def scenario():
        async with asyncio.timeout(60), running_parts(tmp_path / "data") as parts:
            await parts.engine.wait_ready()
            parts.engines.cluster = cluster
            a = parts.store_slow_operand(600)
            job, _ = await parts.submit(ask(a, a))
            await cluster.has_run.wait()
            cluster.lose_runs("its engine was ended")  # the node computes the next one, too
            assert len(set(cluster.asked)) == 2, "the node may still end the first run"
            cluster.nodes.clear()
            cluster.lose_runs("its engine was ended")
            ended = await parts.dispatcher.wait(job.id)
            assert (ended.state, ended.attempts) == (JobState.SUCCEEDED, 1)
            assert parts.engines.running == 0

    asyncio.run(scenario())


@pytest.fixture(params=[True, False], ids=["its engine ends", "its engine goes on"])
def cluster(request, tmp_path, monkeypatch):
    """Two nodes that hear no cancellation."""
    monkeypatch.setattr("wavetrim.service.jobs.lanes.engine_queue.STOP_GRACE_SECONDS", 0.1)
    return SilentCluster(tmp_path, nodes=2, hears_end=request.param)


@asynccontextmanager
async def running_job(folder, cluster, monkeypatch, **settings):
    """Parts with a job that a node has, and the job's id; this machine's engine may not have it."""

    def refuse(message, _take):
        raise AssertionError(f"it was to stop: {message}")

    async with asyncio.timeout(30), running_parts(folder, **settings) as parts:
        await parts.engine.wait_ready()
        monkeypatch.setattr(parts.engine, "start_run", refuse)
        parts.engines.cluster = cluster
        a = parts.store_slow_operand(600)
        job, _ = await parts.submit(ask(a, a))
        await cluster.has_run.wait()
        yield parts, job.id


def assert_stopped(parts, cluster, asked):
    """Nobody else was asked, and the lane is free for others."""
    assert cluster.asked == asked
    assert parts.engines.running == 0
    assert cluster.restarts == (0 if cluster.hears_end else 1)


def test_a_cancelled_job_ends_as_cancelled(tmp_path, cluster, monkeypatch):
    async def scenario():
        async with running_job(tmp_path / "data", cluster, monkeypatch) as (parts, job):
            asked = cluster.asked.copy()
            await parts.dispatcher.cancel(job)
            assert (await parts.dispatcher.wait(job)).state is JobState.CANCELLED
            assert_stopped(parts, cluster, asked)

    asyncio.run(scenario())


def test_a_job_past_its_deadline_ends_as_such(tmp_path, cluster, monkeypatch):
    async def scenario():
        settings = {"job_timeout_seconds": 0.5}
        async with running_job(tmp_path / "data", cluster, monkeypatch, **settings) as running:
            parts, job = running
            asked = cluster.asked.copy()
            ended = await parts.dispatcher.wait(job)
            assert ended.state is JobState.FAILED
            assert ended.error is not None
            assert ended.error["kind"] == "timeout"
            assert_stopped(parts, cluster, asked)

    asyncio.run(scenario())
