"""Failures: which requests are repeated, how often, that nothing is done twice, and the errors."""

import copy
import json
import pickle
import time

import numpy as np
import pytest

from tests.client.proxy import run_proxy
from tests.client.scripted_server import answer, serve_script
from tests.limit import allow
from tests.matrices import SLOW
from tests.server import encode_npy
from wavetrim.client import (
    ClientError,
    DownloadCorrupted,
    JobUnsuccessful,
    NotFound,
    ServiceBusy,
    ServiceRefused,
    ServiceTimeout,
    ServiceUnreachable,
    Unauthorized,
    WaitTimeout,
)

BROKEN = b""
DEVICES = answer(b'{"devices": []}')
BUSY = answer(b'{"title": "The service is stopping"}', 503, Retry_After=0)
BUSY_LONG = answer(b'{"title": "The service is stopping"}', 503, Retry_After=30)
BUSY_UNKNOWN = answer(b'{"title": "The service is stopping"}', 503)
QUEUE_FULL = answer(b'{"title": "The queue is full"}', 429, Retry_After=1)
MISSING = answer(b'{"title": "No such matrix"}', 404)
BAD_GATEWAY = answer(b"<html>Bad Gateway</html>", 502, Content_Type="text/html")
GATEWAY_TIMEOUT = answer(b"<html>Gateway Time-out</html>", 504, Content_Type="text/html")
PROBLEM = {"title": "Not taken", "detail": "f is 9", "field": "f", "value": 9, "limit": "0 to 8"}


@pytest.mark.parametrize("first", [BROKEN, BUSY, BAD_GATEWAY], ids=["broken", "busy", "502"])
def test_a_request_that_failed_is_repeated_until_it_is_answered(connect, first):
    with serve_script([first, first, DEVICES]) as url:
        assert connect(url).devices() == {"devices": []}
    assert [request.line for request in url.requests] == ["GET /v1/devices"] * 3
    with serve_script([first]) as url, pytest.raises(ClientError):
        connect(url, retries=1).devices()
    assert len(url.requests) == 2


@pytest.mark.parametrize(
    ("reply", "error", "message"),
    [
        (BUSY_LONG, ServiceBusy, "stopping"),
        (BUSY_UNKNOWN, ServiceBusy, "stopping"),
        (QUEUE_FULL, ServiceBusy, "queue is full"),
        (answer(b"{}", 500), ServiceRefused, "HTTP status 500"),
        (GATEWAY_TIMEOUT, ServiceTimeout, "does not answer: a proxy answers 504"),
    ],
    ids=["long pause", "unknown pause", "queue", "500", "504"],
)
def test_what_may_not_pass_soon_is_not_repeated(connect, reply, error, message):
    begin = time.monotonic()
    with serve_script([reply]) as url, pytest.raises(error, match=message) as raised:
        connect(url).submit("a", "b")
    assert time.monotonic() - begin < allow(5)
    assert len(url.requests) == 1
    if reply is BUSY_LONG:
        assert raised.value.retry_after_seconds == 30


def test_a_proxys_word_is_that_the_service_does_not_answer(connect):
    message = "does not answer: a proxy answers 502"
    with serve_script([BAD_GATEWAY]) as url, pytest.raises(ServiceUnreachable, match=message):
        connect(url, retries=0).devices()
    own = json.dumps({"title": "The job failed", "detail": "it took too long"}).encode()
    reply = answer(own, 504, Content_Type="application/problem+json")
    with serve_script([reply]) as url, pytest.raises(ServiceRefused, match="it took too long"):
        connect(url).devices()


def test_a_product_whose_answer_breaks_is_repeated(connect):
    whole = answer(encode_npy(np.eye(2)))
    a = np.arange(4.0).reshape(2, 2)
    with serve_script([BROKEN, whole[:-8], whole]) as url:
        assert connect(url).matmul(a, a, out=a) is a
    np.testing.assert_array_equal(a, np.eye(2))
    assert len({request.body for request in url.requests}) == 1, "out changed between the tries"


def test_a_repeated_delete_of_a_missing_matrix_succeeds(connect):
    with serve_script([BROKEN, MISSING]) as url:
        connect(url).delete("m")
    with serve_script([MISSING]) as url, pytest.raises(NotFound):
        connect(url).delete("m")


@pytest.mark.parametrize("many", [False, True])
def test_a_submit_whose_answer_is_lost_is_one_job(connect, server, many):
    direct = connect(server.url)
    matrix = direct.put(np.eye(4))
    before = {job.id for job in direct.jobs()}
    with run_proxy(server.port, b"POST /v1/jobs ", lose=2) as proxy:
        client = connect(proxy.url)
        pairs = [(matrix, matrix)] * 2
        jobs = client.submit_many(pairs) if many else [client.submit(matrix, matrix)]
    assert proxy.lost == [202, 200], "the service took it once, then recognised it"
    assert {job.id for job in direct.jobs()} - before == {job.id for job in jobs}
    assert direct.job(jobs[0].id).wait().state == "succeeded"


def test_an_upload_whose_answer_is_lost_is_one_matrix(connect, server):
    direct = connect(server.url)
    before = {matrix.id for matrix in direct.matrices()}
    with run_proxy(server.port, b"POST /v1/matrices ", lose=2) as proxy:
        matrix = connect(proxy.url).put(np.eye(4))
    assert proxy.lost == [201, 200], "the service stored it once, then recognised it"
    assert {one.id for one in direct.matrices()} - before == {matrix.id}
    np.testing.assert_array_equal(direct.get(matrix), np.eye(4))


def test_an_unanswered_submit_does_not_delete_its_operands(connect, server):
    slow = np.ones((SLOW, SLOW), np.int64)
    direct = connect(server.url)
    before = {job.id for job in direct.jobs()}
    with run_proxy(server.port, b"POST /v1/jobs ", lose=3) as proxy:
        client = connect(proxy.url, retries=2)
        with pytest.raises(ServiceUnreachable):
            client.submit(slow, slow)
    assert proxy.lost == [202, 200, 200]
    (job_id,) = {job.id for job in direct.jobs()} - before
    assert direct.job(job_id).wait().state == "succeeded"


def test_each_call_has_a_key_of_its_own(connect):
    with serve_script([BROKEN]) as url:
        client = connect(url, retries=1)
        for call in (lambda: client.submit("a", "b"), lambda: client.put(np.eye(2))):
            for _ in range(2):
                with pytest.raises(ServiceUnreachable):
                    call()
    keys = [request.headers["idempotency-key"] for request in url.requests]
    assert keys[::2] == keys[1::2]
    assert len(set(keys)) == 4


@pytest.mark.parametrize(
    "error",
    [
        ServiceUnreachable("http://x", "gone"),
        ServiceTimeout("http://x", "silent"),
        *(kind(422, PROBLEM) for kind in (ServiceRefused, Unauthorized, NotFound)),
        ServiceBusy(503, PROBLEM, 2.0),
        JobUnsuccessful("j", "failed", {"message": "no memory"}),
        WaitTimeout("job j is not finished after 1 s"),
        DownloadCorrupted("8 bytes are missing"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_copy_of_an_error_is_the_same(error):
    """Pickled ones come from other processes."""
    for one in (copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert type(one) is type(error)
        assert str(one) == str(error)
        assert vars(one) == vars(error)
