"""A product at a node that is lost: another engine computes it, in the same try."""

import asyncio
from pathlib import Path

from tests.service.jobs.silent_cluster import SilentCluster
from tests.service.parts import ask, running_parts
from wavetrim.service.jobs.job import JobState


def test_this_machine_computes_what_a_lost_node_has_left_in_the_same_try(tmp_path: Path) -> None:
    cluster = SilentCluster(tmp_path)

    async def scenario() -> None:
        async with asyncio.timeout(60), running_parts(tmp_path / "data") as parts:
            await parts.engine.wait_ready()
            parts.engines._fleet.cluster = cluster
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
