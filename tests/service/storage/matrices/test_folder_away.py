"""A folder of matrices that is away, like an unmounted disk: it is waited for, not given up."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.server import NPY, RunningServer, encode_npy
from wavetrim.service.storage.disk.new_file import explain
from wavetrim.service.storage.errors import StorageFailed, StorageFull

ARRAY = np.arange(35_000, dtype=np.float64).reshape(350, 100)
OTHER = np.ones((100, 350))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server without an arena: it reads its matrices from disk each time."""
    with RunningServer(tmp_path_factory.mktemp("away") / "data", arena_bytes=0) as running:
        yield running


@pytest.fixture(scope="module")
def arena_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with RunningServer(tmp_path_factory.mktemp("kept") / "data") as running:
        yield running


@contextmanager
def folder_away(server: RunningServer) -> Iterator[None]:
    folder = server.data_dir / "matrices"
    folder.rename(folder.with_name("elsewhere"))
    try:
        yield
    finally:
        folder.with_name("elsewhere").rename(folder)


def store(server: RunningServer) -> httpx.Response:
    return server.client.post("/v1/matrices", content=encode_npy(ARRAY), headers=NPY)


def check_refused(answer: httpx.Response, folder: Path) -> None:
    problem = answer.json()
    assert answer.status_code == 503, problem
    assert problem["type"].endswith("storage-failed")
    assert (problem["field"], problem["value"]) == ("data_dir", str(folder))
    assert "a folder whose files can be read and written" in problem["limit"]
    assert answer.headers["retry-after"] == "5"


@pytest.mark.parametrize("name", ["server", "arena_server"])
def test_an_upload_is_refused_until_the_folder_is_back(
    request: pytest.FixtureRequest, name: str
) -> None:
    server: RunningServer = request.getfixturevalue(name)
    with folder_away(server):
        check_refused(store(server), server.data_dir / "matrices")
    assert store(server).status_code == 201
    assert "incident" not in server.read_log()


def test_a_product_that_has_no_memory_but_files_is_refused(server: RunningServer) -> None:
    content = encode_npy(ARRAY) + encode_npy(OTHER)
    with folder_away(server):
        answer = server.client.post("/v1/matmul", content=content, headers=NPY)
        check_refused(answer, server.data_dir / "matrices")
    assert server.client.post("/v1/matmul", content=content, headers=NPY).status_code == 200


def test_a_matrix_is_not_damaged_because_the_folder_was_away(server: RunningServer) -> None:
    first, second = server.upload(ARRAY), server.upload(OTHER)
    path = f"/v1/matrices/{first}"
    with folder_away(server):
        check_refused(server.client.get(f"{path}/data"), server.data_dir / "matrices")
        job = server.wait_job(server.post_job(first, second))
        assert (job["state"], job["error"]["kind"]) == ("failed", "storage")
    assert server.client.get(path).json()["state"] == "stored"
    assert np.array_equal(server.download(f"{path}/data"), ARRAY)
    assert server.wait_job(server.post_job(first, second))["state"] == "succeeded"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(errno.EROFS, "Read-only file system"), StorageFailed),
        (OSError(errno.EIO, "Input/output error"), StorageFailed),
        (OSError(errno.ENOSPC, "No space left on device"), StorageFull),
        (OSError("a part was written twice"), OSError),
    ],
)
def test_a_failed_write_is_told_by_its_reason(error: OSError, kind: type[Exception]) -> None:
    told = explain(error, Path("/matrices"), 100)
    assert type(told) is kind
    assert (error.strerror or str(error)) in str(told)
