"""A product at a node: how its runs are named, and when another engine is to compute it."""

import asyncio
from pathlib import Path

import pytest

from tests.service.jobs.silent_cluster import SilentCluster
from tests.service.parts import ask, running_parts
from wavetrim.scheduler.engine.messages import Message, Operand, RunRequest
from wavetrim.service.jobs.job import JobState
from wavetrim.service.jobs.lanes.node_run import NodeRun

OPERAND = Operand(1, 0, 10, 10, "float32")
REQUEST = RunRequest("a-job", OPERAND, OPERAND, None, OPERAND)


def start(cluster: SilentCluster, taken: list[Message], lost: list[Message]) -> NodeRun:
    (node,) = cluster.nodes.values()
    run = NodeRun(REQUEST, node, seconds=1.0, take=taken.append, lost=lost.append)
    run.start(was_idle=True, ended=lambda _job: None)
    return run


def test_no_two_runs_of_a_job_have_the_same_name(tmp_path: Path) -> None:
    """A node may still end a run, or be told to, when the next one begins."""
    cluster = SilentCluster(tmp_path)
    for _ in range(2):
        start(cluster, [], [])
    assert len(set(cluster.asked)) == 2
    assert all(name.startswith("a-job.") for name in cluster.asked)


@pytest.mark.parametrize("stopped", [False, True])
def test_a_product_of_a_lost_node_goes_elsewhere_unless_it_was_stopped(
    tmp_path: Path, stopped: bool
) -> None:
    cluster, taken, lost = SilentCluster(tmp_path), list[Message](), list[Message]()
    run = start(cluster, taken, lost)
    if stopped:
        run.cancel()
    cluster.lose_runs("its engine was ended")
    found = [(one["type"], one["job"]) for one in (*taken, *lost)]
    assert found == [("cancelled" if stopped else "failed", "a-job")]
    assert bool(taken) == stopped


def test_this_machine_computes_what_a_lost_node_has_left_in_the_same_try(tmp_path: Path) -> None:
    cluster = SilentCluster(tmp_path)

    async def scenario() -> None:
        async with asyncio.timeout(60), running_parts(tmp_path / "data") as parts:
            await parts.engine.wait_ready()
            parts.engines._fleet.cluster = cluster
            a = parts.store_slow_operand(600)
            job, _ = await parts.submit(ask(a, a))
            await cluster.has_run.wait()
            cluster.nodes.clear()
            cluster.lose_runs("its engine was ended")
            ended = await parts.dispatcher.wait(job.id)
            assert (ended.state, ended.attempts) == (JobState.SUCCEEDED, 1)
            assert parts.engines.running == 0

    asyncio.run(scenario())
