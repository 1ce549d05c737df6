"""Which requests are retried, how often, and that nothing is done twice."""

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.client.lossy_proxy import lose_answers
from tests.client.scripted_server import Received, answer, serve_script
from tests.limit import allow
from tests.matrices import SLOW
from tests.server import RunningServer, encode_npy
from wavetrim.client import (
    ClientError,
    NotFound,
    ServiceBusy,
    ServiceRefused,
    ServiceTimeout,
    ServiceUnreachable,
)
from wavetrim.client.wire.retries import Retries

BROKEN = b""
DEVICES = answer(b'{"devices": []}')
BUSY = answer(b'{"title": "The service is stopping"}', 503, Retry_After=0)
MATRIX = {"id": "m", "shape": [2, 2], "dtype": "float64", "bytes": 160}


def test_pauses_between_tries_double_and_end() -> None:
    retries = Retries(tries=4)
    error = ServiceUnreachable("http://x", "gone")

    def find(made: int, draw: float = 1.0) -> float | None:
        return retries.find_pause(error, made=made, repeatable=True, draw=lambda: draw)

    assert [find(made) for made in (1, 2, 3, 4)] == [0.1, 0.2, 0.4, None]
    assert find(1, draw=0.25) == 0.025


@pytest.mark.parametrize(
    ("error", "repeatable", "repeated"),
    [
        (ServiceUnreachable("x", "gone"), True, True),
        (ServiceUnreachable("x", "gone"), False, False),
        (ServiceTimeout("x", "silent"), True, False),
        (ServiceBusy(503, {}, 1.0), False, True),
        (ServiceBusy(503, {}, 30.0), True, False),
        (ServiceBusy(503, {}, None), True, False),
        (ServiceBusy(429, {}, 1.0), True, False),
        (ServiceRefused(500, {}), True, False),
    ],
)
def test_only_repeatable_errors_are_retried(
    error: ClientError, repeatable: bool, repeated: bool
) -> None:
    pause = Retries().find_pause(error, made=1, repeatable=repeatable)
    assert (pause is not None) == repeated
    if isinstance(error, ServiceBusy) and pause is not None:
        assert pause >= 1.0


def test_a_broken_get_is_retried(connect: Callable[..., Any]) -> None:
    with serve_script([BROKEN, BROKEN, DEVICES]) as url:
        assert connect(url).devices() == {"devices": []}
    assert [request.line for request in url.requests] == ["GET /v1/devices"] * 3


def test_retries_are_bounded(connect: Callable[..., Any]) -> None:
    with serve_script([BROKEN]) as url, pytest.raises(ServiceUnreachable):
        connect(url, retries=2).devices()
    assert len(url.requests) == 3
    with serve_script([BUSY]) as url, pytest.raises(ServiceBusy):
        connect(url, retries=2).devices()
    assert len(url.requests) == 3


def test_an_upload_that_is_answered_by_503_is_retried(connect: Callable[..., Any]) -> None:
    stored = answer(json.dumps(MATRIX).encode(), 201)
    with serve_script([BUSY, stored]) as url:
        assert connect(url).put(np.eye(2)).id == "m"
    first, second = url.requests
    assert first.body == second.body == encode_npy(np.eye(2))


def test_a_product_whose_answer_breaks_is_retried(connect: Callable[..., Any]) -> None:
    whole = answer(encode_npy(np.eye(2)))
    a = np.arange(4.0).reshape(2, 2)
    with serve_script([BROKEN, whole[:-8], whole]) as url:
        assert connect(url).matmul(a, a, out=a) is a
    np.testing.assert_array_equal(a, np.eye(2))
    assert len({request.body for request in url.requests}) == 1, "out changed between the tries"


def test_a_long_retry_after_is_not_waited_for(
    connect: Callable[..., Any],
) -> None:
    later = answer(b'{"title": "The service is stopping"}', 503, Retry_After=30)
    begin = time.monotonic()
    with serve_script([later]) as url, pytest.raises(ServiceBusy) as busy:
        connect(url).submit("a", "b")
    assert time.monotonic() - begin < allow(5)
    assert busy.value.retry_after_seconds == 30
    assert len(url.requests) == 1


def test_a_retried_delete_of_a_missing_matrix_succeeds(connect: Callable[..., Any]) -> None:
    missing = answer(b'{"title": "No such matrix"}', 404)
    with serve_script([BROKEN, missing]) as url:
        connect(url).delete("m")
    with serve_script([missing]) as url, pytest.raises(NotFound):
        connect(url).delete("m")


def test_a_submit_whose_answer_is_lost_is_one_job(
    connect: Callable[..., Any], server: RunningServer
) -> None:
    direct = connect(server.url)
    matrix = direct.put(np.eye(4))
    before = {job.id for job in direct.jobs()}
    with lose_answers(server.port, b"POST /v1/jobs ", count=2) as (url, lost):
        job = connect(url).submit(matrix, matrix)
    assert lost == [202, 200], "the service took it once, then recognised it"
    assert {job.id for job in direct.jobs()} - before == {job.id}
    assert direct.job(job.id).wait().state == "succeeded"


def test_an_upload_whose_answer_is_lost_is_one_matrix(
    connect: Callable[..., Any], server: RunningServer
) -> None:
    direct = connect(server.url)
    before = {matrix.id for matrix in direct.matrices()}
    with lose_answers(server.port, b"POST /v1/matrices ", count=2) as (url, lost):
        matrix = connect(url).put(np.eye(4))
    assert lost == [201, 200], "the service stored it once, then recognised it"
    assert {one.id for one in direct.matrices()} - before == {matrix.id}
    np.testing.assert_array_equal(direct.get(matrix), np.eye(4))


def test_an_unanswered_submit_does_not_delete_its_operands(
    connect: Callable[..., Any], server: RunningServer
) -> None:
    slow = np.ones((SLOW, SLOW), np.int64)
    direct = connect(server.url)
    before = {job.id for job in direct.jobs()}
    with lose_answers(server.port, b"POST /v1/jobs ", count=3) as (url, lost):
        client = connect(url, retries=2)
        with pytest.raises(ServiceUnreachable):
            client.submit(slow, slow)
    assert lost == [202, 200, 200]
    (job_id,) = {job.id for job in direct.jobs()} - before
    assert direct.job(job_id).wait().state == "succeeded"


def test_retries_carry_the_same_idempotency_key(connect: Callable[..., Any]) -> None:
    keys: list[str] = []

    def note(request: Received) -> bytes:
        keys.append(request.headers["idempotency-key"])
        return BROKEN

    with serve_script([note]) as url:
        client = connect(url, retries=1)
        for _ in range(2):
            with pytest.raises(ServiceUnreachable):
                client.submit("a", "b")
        with pytest.raises(ServiceUnreachable):
            client.put(np.eye(2))
    assert keys[0] == keys[1] != keys[2] == keys[3]
    assert keys[4] == keys[5] not in keys[:4]
