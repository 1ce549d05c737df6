"""Jobs at the nodes of a cluster that are stopped: by a cancellation, or at their deadline."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.service.jobs.silent_cluster import SilentCluster
from tests.service.parts import Parts, ask, running_parts
from wavetrim.scheduler.engine.messages import Message
from wavetrim.service.jobs.job import JobState


@pytest.fixture(params=[True, False], ids=["its engine ends", "its engine goes on"])
def cluster(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SilentCluster:
    """Two nodes that hear no cancellation."""
    monkeypatch.setattr("wavetrim.service.jobs.lanes.running.STOP_GRACE_SECONDS", 0.1)
    return SilentCluster(tmp_path, nodes=2, hears_end=request.param)


@asynccontextmanager
async def running_job(
    folder: Path, cluster: SilentCluster, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> AsyncIterator[tuple[Parts, str]]:
    """Parts with a job that a node has, and the job's id; this machine's engine may not have it."""

    def refuse(message: Message, _take: object) -> None:
        raise AssertionError(f"it was to stop: {message}")

    async with asyncio.timeout(30), running_parts(folder, **settings) as parts:
        await parts.engine.wait_ready()
        monkeypatch.setattr(parts.engine, "start_run", refuse)
        parts.engines._fleet.cluster = cluster
        a = parts.store_slow_operand(600)
        job, _ = await parts.submit(ask(a, a))
        await cluster.has_run.wait()
        yield parts, job.id


def assert_stopped(parts: Parts, cluster: SilentCluster, asked: list[str]) -> None:
    """Nobody else was asked, and the lane is free for others."""
    assert cluster.asked == asked
    assert parts.engines.running == 0
    assert cluster.restarts == (0 if cluster.hears_end else 1)


def test_a_cancelled_job_ends_as_cancelled(
    tmp_path: Path, cluster: SilentCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with running_job(tmp_path / "data", cluster, monkeypatch) as (parts, job):
            asked = cluster.asked.copy()
            await parts.dispatcher.cancel(job)
            assert (await parts.dispatcher.wait(job)).state is JobState.CANCELLED
            assert_stopped(parts, cluster, asked)

    asyncio.run(scenario())


def test_a_job_past_its_deadline_ends_as_such(
    tmp_path: Path, cluster: SilentCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
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
