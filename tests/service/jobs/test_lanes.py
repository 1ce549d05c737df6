"""Several GPUs at different jobs, with a real service and a real engine process.

The GPUs compute in host memory where there are none; the tests marked `gpu` run two pipelines on
one.
"""

import asyncio
import os
import signal
import time
from contextlib import asynccontextmanager

import numpy as np
import pytest

from tests.environment import clear_environment
from tests.host_gpus import write_sitecustomize
from tests.limit import allow
from tests.matrices import make_matrix
from tests.service.parts import ask, running_parts
from wavetrim.service.jobs.job import JobState
from wavetrim.service.jobs.lanes.host_lanes import HostLanes

ROWS = 1000


@pytest.fixture
def slow_gpus(tmp_path, monkeypatch):
    """GPUs that take more than a second for ROWS rows; returns the service's folder."""
    folder = write_sitecustomize(tmp_path, row_seconds=1.5 / ROWS)
    monkeypatch.setenv("PYTHONPATH", clear_environment(folder)["PYTHONPATH"])
    return tmp_path / "data"


@asynccontextmanager
async def running_gpus(folder, devices):
    async with asyncio.timeout(100), running_parts(folder, devices=devices) as parts:
        await parts.engine.wait_ready()
        yield parts


async def submit(parts, *operands, count=1, **options):
    asked = ask(*operands, verify=True, **options)
    return [(await parts.submit(asked))[0] for _ in range(count)]


async def wait_until_busy(parts, *devices):
    """Return once exactly the devices of one of these sets work."""
    while True:
        if {name for name, seconds in parts.engines.host.describe() if seconds} in devices:
            return
        await asyncio.sleep(0.01)


def store_operands(parts):
    """A and B of a product that the planner gives to one GPU."""
    a, b = make_matrix(ROWS, 2000, "float32", seed=1), make_matrix(2000, 2000, "float32", seed=2)
    return parts.store(a), parts.store(b)


def check(parts, job):
    assert job.state is JobState.SUCCEEDED
    expected = parts.load(job.a) @ parts.load(job.b)
    assert np.allclose(parts.load(job.result), expected, atol=1e-2)


def test_two_gpus_work_at_two_jobs_and_a_small_one_passes_them(slow_gpus):
    async def scenario():
        async with running_gpus(slow_gpus, "0,1") as parts:
            operands = store_operands(parts)
            start = time.monotonic()
            jobs = await submit(parts, *operands, count=2)
            await wait_until_busy(parts, {"cuda:0", "cuda:1"})
            small = parts.store(make_matrix(30, 30, "float32", seed=3))
            (quick,) = await submit(parts, small, small)
            check(parts, await parts.dispatcher.wait(quick.id))
            assert parts.engines.running == 2
            for job in jobs:
                check(parts, await parts.dispatcher.wait(job.id))
            assert time.monotonic() - start < allow(2.8)

    asyncio.run(scenario())


def test_one_of_two_running_jobs_is_cancelled_and_the_other_goes_on(slow_gpus):
    async def scenario():
        async with running_gpus(slow_gpus, "0,1") as parts:
            goes, ends = await submit(parts, *store_operands(parts), count=2)
            await wait_until_busy(parts, {"cuda:0", "cuda:1"})
            await parts.dispatcher.cancel(ends.id)
            assert (await parts.dispatcher.wait(ends.id)).state is JobState.CANCELLED
            await wait_until_busy(parts, {"cuda:0"}, {"cuda:1"})  # either may have come first
            check(parts, await parts.dispatcher.wait(goes.id))
            assert parts.engine.restarts == 0

    asyncio.run(scenario())


def test_a_product_that_cannot_be_planned_fails_and_does_not_wait_for_ever(slow_gpus, monkeypatch):
    def refuse(_lanes, _request):
        raise RuntimeError("the profile is lost")

    async def scenario():
        async with running_gpus(slow_gpus, "0,1") as parts:
            operands = store_operands(parts)
            (goes,) = await submit(parts, *operands, f=0)
            await wait_until_busy(parts, {"cuda:0"}, {"cuda:1"})
            monkeypatch.setattr(HostLanes, "find", refuse)
            (waits,) = await submit(parts, *operands)
            ended = await parts.dispatcher.wait(waits.id)
            assert ended.state is JobState.FAILED
            assert ended.error is not None
            told = "it cannot be planned: RuntimeError: the profile is lost"
            assert ended.error["message"] == told
            check(parts, await parts.dispatcher.wait(goes.id))
            assert parts.engines.waiting == 0

    asyncio.run(scenario())


def test_jobs_of_all_lanes_run_again_when_the_engine_ends(slow_gpus):
    async def scenario():
        async with running_gpus(slow_gpus, "0,1") as parts:
            jobs = await submit(parts, *store_operands(parts), count=2)
            await wait_until_busy(parts, {"cuda:0", "cuda:1"})
            assert parts.engine.pid is not None
            os.kill(parts.engine.pid, signal.SIGKILL)
            for job in jobs:
                done = await parts.dispatcher.wait(job.id)
                check(parts, done)
                assert done.attempts == 2

    asyncio.run(scenario())


def test_of_jobs_for_one_gpu_two_are_sent_and_all_tell_how_long_they_wait(slow_gpus):
    """The GPU is slower than the model knows, so the first two should end within milliseconds.

    No job waits longer than those before it took: that is the bound of a wait.
    """

    async def scenario():
        async with running_gpus(slow_gpus, "0") as parts:
            jobs = await submit(parts, *store_operands(parts), count=3, f=0)
            await wait_until_busy(parts, {"cuda:0"})
            assert parts.engines.longest_wait_seconds > 0
            seen = set()
            while not (await asyncio.to_thread(parts.jobs.get, jobs[-1].id)).state.finished:
                seen.add(parts.engines.running)
                await asyncio.sleep(0.01)
            assert max(seen) == 2
            ended = [await parts.dispatcher.wait(job.id) for job in jobs]
            assert parts.engines.longest_wait_seconds == 0
            before = 0.0  # those that are ready together may begin in any order
            for one in sorted(ended, key=lambda one: float(one.timings["device_wait_seconds"])):
                check(parts, one)
                waited_seconds = float(one.timings["device_wait_seconds"])
                assert 0.5 * before <= waited_seconds <= before + allow(0.8)
                before += float(one.timings["total_seconds"])
            assert before > 4.0

    asyncio.run(scenario())


def test_an_urgent_job_passes_those_that_wait_in_the_lane(slow_gpus):
    async def scenario():
        async with running_gpus(slow_gpus, "0") as parts:
            operands = store_operands(parts)
            first, *others = await submit(parts, *operands, count=4, f=0)
            await wait_until_busy(parts, {"cuda:0"})
            (urgent,) = await submit(parts, *operands, priority=1000, f=0)
            assert (await parts.dispatcher.wait(urgent.id)).state is JobState.SUCCEEDED
            assert (await parts.dispatcher.wait(first.id)).state.finished
            running = [await asyncio.to_thread(parts.jobs.get, one.id) for one in others]
            # On a busy machine one of them may have begun before the urgent job came.
            assert not all(one.state.finished for one in running)
            for one, state in zip(others, running, strict=True):
                if not state.state.finished:
                    await parts.dispatcher.cancel(one.id)

    asyncio.run(scenario())


@pytest.mark.gpu
def test_two_pipelines_of_one_gpu_work_at_sixteen_jobs(tmp_path):
    async def scenario():
        async with running_gpus(tmp_path, "0,0") as parts:
            operands = [parts.store(make_matrix(3000, 3000, "float32", seed=n)) for n in range(2)]
            jobs = await submit(parts, *operands, count=16)
            seen = 0
            while parts.engines.running or parts.engines.waiting or not seen:
                seen = max(seen, sum(seconds > 0 for _, seconds in parts.engines.host.describe()))
                await asyncio.sleep(0.001)
            for job in jobs:
                check(parts, await parts.dispatcher.wait(job.id))
            assert seen >= 2

    asyncio.run(scenario())
