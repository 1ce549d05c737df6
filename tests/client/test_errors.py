"""Errors go from process to process: they can be pickled and copied."""

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

from tests.server import RunningServer
from wavetrim.client import (
    Client,
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

PROBLEM = {"title": "Not taken", "detail": "f is 9", "field": "f", "value": 9, "limit": "0 to 8"}


@pytest.mark.parametrize(
    "error",
    [
        ServiceUnreachable("http://x", "gone"),
        ServiceTimeout("http://x", "silent"),
        ServiceRefused(422, PROBLEM),
        Unauthorized(401, PROBLEM),
        NotFound(404, PROBLEM),
        ServiceBusy(503, PROBLEM, 2.0),
        JobUnsuccessful("j", "failed", {"message": "no memory"}),
        WaitTimeout("job j is not finished after 1 s"),
        DownloadCorrupted("8 bytes are missing"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_copy_of_an_error_is_the_same(error: ClientError) -> None:
    copies: list[Any] = [copy.copy(error), copy.deepcopy(error)]
    copies += [pickle.loads(pickle.dumps(error, version)) for version in range(2, 6)]
    for one in copies:
        assert type(one) is type(error)
        assert str(one) == str(error)
        assert vars(one) == vars(error)


def test_an_error_comes_back_from_another_process(shared_server: RunningServer) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        failed = pool.submit(find_matrix, shared_server.url, "nothing").exception(60)
    assert isinstance(failed, NotFound)
    assert failed.status == 404
    assert "'nothing'" in str(failed)


def find_matrix(url: str, matrix_id: str) -> None:
    with Client(url, retries=0) as client:
        client.matrix(matrix_id)
