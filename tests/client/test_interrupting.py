"""Calls that are interrupted: what they have done is taken back, and nobody waits long for that."""

import asyncio
import gc
import json
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from tests.changed_program import describe_constants
from tests.client.proxy import run_proxy
from tests.client.scripted_server import answer, serve_script
from tests.command import start_command
from tests.limit import allow
from tests.matrices import SLOW, make_matrix
from tests.processes import wait_until
from wavetrim.client import AsyncClient, Client, WaitTimeout

POST = b"POST /v1/jobs "
PUT = b"POST /v1/matrices"
SMALL = make_matrix(40, 40, "float32", 1)
LARGE = make_matrix(SLOW, SLOW, "int64", 2)
RUNNING = {"running", "succeeded"}  # as it may have ended before it is seen to run
SILENT = b""
MATRIX = {"id": "m", "shape": [2, 2], "dtype": "float64", "bytes": 160}

Call = Callable[[AsyncClient], Awaitable[Any]]


def interrupt(call, server, line, until, **holding):
    """Cancel a call while its answer is held back, once `until` is true."""

    async def run(url, proxy):
        async with AsyncClient(url) as client:
            task = asyncio.ensure_future(call(client))
            await asyncio.to_thread(proxy.holds.wait)
            await asyncio.sleep(0.05)  # what was passed on has arrived
            wait_until(until)
            task.cancel()
            await asyncio.sleep(0)  # it gets to know
            proxy.released.set()
            with pytest.raises(asyncio.CancelledError):
                await task

    with run_proxy(server.port, line, hold=True, **holding) as proxy:
        asyncio.run(run(proxy.url, proxy))


def list_new_jobs(server, before):
    with Client(server.url) as client:
        return [job for job in client.jobs() if job.id not in before]


def list_matrices(server):
    with Client(server.url) as client:
        return {matrix.id for matrix in client.matrices()}


@pytest.mark.parametrize(
    ("operand", "states", "holding"),
    [
        (SMALL, {"succeeded"}, {}),
        (LARGE, RUNNING, {}),
        (SMALL, {"succeeded"}, {"lose": 1}),
        (LARGE, RUNNING, {"lose": 1}),
        (LARGE, RUNNING, {"head_first": True}),
    ],
    ids=["ended", "running", "ended, asked twice", "running, asked twice", "half an answer"],
)
def test_an_interrupted_submit_leaves_no_job_and_no_matrix(server, operand, states, holding):
    before = {job.id for job in list_new_jobs(server, set())}
    matrices = list_matrices(server)
    interrupt(
        lambda client: client.submit(operand, operand),
        server,
        POST,
        lambda: all(job.state in states for job in list_new_jobs(server, before)),
        **holding,
    )
    (job,) = list_new_jobs(server, before)
    assert job.state in {"cancelled", "succeeded"}
    assert list_matrices(server) == matrices


def test_an_interrupted_submit_leaves_the_job_of_an_earlier_one(server):
    with Client(server.url) as client:
        a = client.put(LARGE)
        first = client.submit(a, a, idempotency_key="twice")
        interrupt(
            lambda other: other.submit(a, a, idempotency_key="twice"), server, POST, lambda: True
        )
        result = first.wait().result
        assert result in list_matrices(server)


@pytest.mark.parametrize("head_first", [False, True])
def test_an_interrupted_upload_leaves_no_matrix(server, head_first):
    matrices = list_matrices(server)
    interrupt(lambda client: client.put(SMALL), server, PUT, lambda: True, head_first=head_first)
    assert list_matrices(server) == matrices


def test_a_call_after_an_interrupted_upload_has_a_connection_of_its_own(monkeypatch):
    monkeypatch.setattr("wavetrim.client.wire.connection.UNDO_SECONDS", 0.3)
    released = threading.Event()

    def refuse(_):
        released.wait()
        return answer(b"{}", 507)

    def answer_late(_):
        time.sleep(0.6)  # until nothing is waited for that the upload has left
        return answer(b"{}")

    async def run(url):
        async with AsyncClient(url) as client:
            task = asyncio.create_task(client.put(np.eye(2)))
            await asyncio.to_thread(wait_until, lambda: url.requests)
            task.cancel()
            await asyncio.sleep(0)  # it gets to know
            released.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await client.health()).ready

    with serve_script([refuse, answer_late], close=False) as url:
        asyncio.run(run(url))


def test_a_wait_ends_at_its_deadline_while_the_service_is_silent(connect):
    began = time.monotonic()
    with serve_script([SILENT], close=False) as url, pytest.raises(WaitTimeout, match=r"0\.1 s"):
        connect(url).job("j").wait(timeout_seconds=0.1)
    assert time.monotonic() - began < allow(5)


@pytest.mark.parametrize("operand", [np.eye(2), "m"], ids=["upload", "post"])
def test_a_cancelled_submit_does_not_wait_long_for_a_silent_service(monkeypatch, caplog, operand):
    monkeypatch.setattr("wavetrim.client.wire.connection.UNDO_SECONDS", 0.1)

    async def give_up(url):
        async with AsyncClient(url) as client, asyncio.timeout(0.1):
            await client.submit(operand, operand)

    began = time.monotonic()
    with serve_script([SILENT], close=False) as url, pytest.raises(TimeoutError):
        asyncio.run(give_up(url))
    assert time.monotonic() - began < allow(5)
    gc.collect()
    assert not caplog.records, "the loop complains of nothing"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_cancelled_upload_to_a_silent_service_ends(scheme, caplog):
    began = time.monotonic()

    async def give_up(url):
        async with AsyncClient(url, timeout=None) as client, asyncio.timeout(0.1):
            await client.put(np.zeros((4000, 4000)))

    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(TimeoutError):
        asyncio.run(give_up(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"))
    assert time.monotonic() - began < allow(5)
    assert not caplog.records, "the loop complains of nothing"


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX])
def test_a_cancelled_call_ends_while_nobody_accepts_its_connection(family, tmp_path, caplog):
    path = str(tmp_path / "full.sock")

    async def give_up(url):
        async with AsyncClient(url) as client, asyncio.timeout(0.1):
            await client.devices()

    place = path if family == socket.AF_UNIX else ("127.0.0.1", 0)
    with (
        socket.create_server(place, family=family, backlog=0) as listener,
        socket.socket(family) as first,
    ):
        first.connect(listener.getsockname())  # there is no room for another
        url = path if family == socket.AF_UNIX else f"http://127.0.0.1:{listener.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            asyncio.run(give_up(url))
    assert time.monotonic() - began < allow(3)
    assert not caplog.records, "the loop complains of nothing"


def test_one_ctrl_c_ends_a_command_whose_service_is_silent(tmp_path):
    for name in "AB":
        np.save(tmp_path / f"{name}.npy", np.eye(2))
    stored = answer(json.dumps(MATRIX).encode(), 201)
    with (
        serve_script([stored, SILENT], close=False) as url,
        start_command(
            "upload", "A.npy", "B.npy", folder=tmp_path,
            WAVETRIM_URL=url, **describe_constants(undo_seconds=0.5),
        ) as process,
    ):  # fmt: skip
        wait_until(lambda: len(url.requests) == 2)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=allow(60))
        # It waits for the answer to B, and then for that to the removal of A: half a second each.
        assert time.monotonic() - began < allow(4)
    assert "interrupted" in errors
