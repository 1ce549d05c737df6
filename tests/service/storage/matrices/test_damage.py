"""Files that change behind the service's back are never served or computed with.

A folder of matrices that is away, like an unmounted disk, is waited for, not given up.
"""

import shutil
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest

from tests.matrices import make_matrix
from tests.refusals import expect_refusal
from tests.server import NPY, encode_npy, make_server_fixture

ARRAY = np.arange(35_000, dtype=np.float32).reshape(50, 700)
LARGE_BYTES = 80 * 2**20
"""More than is checked before it is sent."""

server = make_server_fixture(arena_bytes=0)  # it reads its matrices from disk each time
arena_server = make_server_fixture()


def find_file(server, matrix_id):
    return server.data_dir / "matrices" / f"{matrix_id}.npy"


def change_byte(path):
    with path.open("r+b") as file:
        file.seek(-5, 2)
        byte = file.read(1)
        file.seek(-5, 2)
        file.write(bytes([byte[0] ^ 1]))


def cut_off(path):
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1)


def make_link(path):
    shutil.move(path, path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


def make_folder(path):
    path.unlink()
    path.mkdir()


CHANGES = [change_byte, cut_off, make_link, make_folder, Path.unlink]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("headers", [{}, {"Range": "bytes=0-9"}])
def test_a_changed_file_is_refused_and_marked_and_can_be_deleted(server, change, headers):
    matrix_id = server.upload(ARRAY)
    path = f"/v1/matrices/{matrix_id}"
    assert server.client.get(f"{path}/data", headers=headers).is_success
    assert server.client.get(path).json()["state"] == "stored"
    change(find_file(server, matrix_id))
    for _ in range(2):
        refused = server.client.get(f"{path}/data", headers=headers)
        assert (refused.status_code, refused.json()["value"]) == (409, matrix_id)
        assert refused.json()["type"].endswith("matrix-damaged")
    assert server.client.get(path).json()["state"] == "damaged"
    assert server.client.head(f"{path}/data").status_code == 409
    posted = server.client.post("/v1/jobs", json={"a": matrix_id, "b": matrix_id})
    assert posted.status_code == 409
    assert server.client.delete(path).status_code == 204


def test_a_large_changed_file_never_arrives_whole(server):
    matrix_id = server.upload(np.ones((1024, LARGE_BYTES // 1024), np.int8))
    change_byte(find_file(server, matrix_id))
    with (
        server.client.stream("GET", f"/v1/matrices/{matrix_id}/data") as answer,
        pytest.raises(httpx.RemoteProtocolError, match="without sending complete"),
    ):
        list(answer.iter_raw())
    assert server.client.get(f"/v1/matrices/{matrix_id}").json()["state"] == "damaged"
    server.client.delete(f"/v1/matrices/{matrix_id}")


def test_a_job_whose_operand_has_changed_fails_at_once(server):
    a = server.upload(make_matrix(900, 900, "int64", seed=1))
    kept, *operands = (server.upload(make_matrix(900, 9, "int64", seed=2)) for _ in range(6))
    with server.engine_stopped():  # the others wait for the first
        first, *others = (server.post_job(a, b) for b in (kept, *operands))
        for change, operand in zip(CHANGES, operands, strict=True):
            change(find_file(server, operand))
    for change, operand, posted in zip(CHANGES, operands, others, strict=True):
        job = server.wait_job(posted)
        told = job["state"], job["error"]["kind"], job["attempts"]
        assert told == ("failed", "storage", 1), change
        assert operand in job["error"]["message"]
    assert server.wait_job(first)["state"] == "succeeded"


def test_a_matrix_in_the_arena_is_served_although_its_file_was_changed(start_server):
    running = start_server()
    matrix_id = running.upload(ARRAY)
    change_byte(find_file(running, matrix_id))
    assert np.array_equal(running.download(f"/v1/matrices/{matrix_id}/data"), ARRAY)


def test_files_that_changed_while_the_service_was_down_are_neither_computed_with_nor_sent(
    start_server,
):
    running = start_server()
    operands = {
        change: running.upload(make_matrix(90, 90, "float32", seed=2)) for change in CHANGES
    }
    sent = running.upload(ARRAY)
    running.stop()
    for change, operand in operands.items():
        change(find_file(running, operand))
    change_byte(find_file(running, sent))
    running.restart()
    for operand in operands.values():  # read into the arena, and checked on the way
        job = running.wait_job(running.post_job(operand, operand))
        assert (job["state"], job["error"]["kind"], job["attempts"]) == ("failed", "storage", 1)
        assert running.client.get(f"/v1/matrices/{operand}").json()["state"] == "damaged"
    assert running.client.get(f"/v1/matrices/{sent}/data").status_code == 409
    arena = running.client.get("/v1/devices").json()["arena"]
    assert arena["used_bytes"] == 0


# The folder is away

WIDE = np.arange(35_000, dtype=np.float64).reshape(350, 100)
OTHER = np.ones((100, 350))


@contextmanager
def folder_away(server):
    folder = server.data_dir / "matrices"
    folder.rename(folder.with_name("elsewhere"))
    try:
        yield
    finally:
        folder.with_name("elsewhere").rename(folder)


def store(server):
    return server.client.post("/v1/matrices", content=encode_npy(WIDE), headers=NPY)


def check_refused(answer, folder):
    limit = "a folder whose files can be read and written"
    problem = expect_refusal(answer, 503, "data_dir", value=str(folder), limit=limit)
    assert problem["type"].endswith("storage-failed")
    assert answer.headers["retry-after"] == "5"


@pytest.mark.parametrize("name", ["server", "arena_server"])
def test_an_upload_is_refused_until_the_folder_is_back(request, name):
    server = request.getfixturevalue(name)
    logged = len(server.read_log())
    with folder_away(server):
        check_refused(store(server), server.data_dir / "matrices")
    assert store(server).status_code == 201
    assert "incident" not in server.read_log()[logged:]


def test_a_product_that_has_no_memory_but_files_is_refused(server):
    with folder_away(server):
        check_refused(server.multiply(WIDE, OTHER), server.data_dir / "matrices")
    assert server.multiply(WIDE, OTHER).status_code == 200


def test_a_matrix_is_not_damaged_because_the_folder_was_away(server):
    first, second = server.upload(WIDE), server.upload(OTHER)
    path = f"/v1/matrices/{first}"
    with folder_away(server):
        check_refused(server.client.get(f"{path}/data"), server.data_dir / "matrices")
        job = server.wait_job(server.post_job(first, second))
        assert (job["state"], job["error"]["kind"]) == ("failed", "storage")
    assert server.client.get(path).json()["state"] == "stored"
    assert np.array_equal(server.download(f"{path}/data"), WIDE)
    assert server.wait_job(server.post_job(first, second))["state"] == "succeeded"
