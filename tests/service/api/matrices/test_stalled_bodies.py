"""Bodies that are announced and do not come hold hardly any disk and memory."""

import contextlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.mounts import mounted_tmpfs
from tests.own_memory import measure_resident
from tests.processes import wait_until
from tests.server import RunningServer, encode_npy
from tests.service.api.wire.wire_server import make_head, read_answer
from wavetrim.service.storage.matrices.npy import Layout

MIB = 2**20
STALLED = 32
ARENA_BYTES = 384 * MIB
SIZES = {"larger than all memory for matrices": 8 * 10**9, "of a size that has a place": 200 * MIB}
PATHS = ("/v1/matrices", "/v1/matrices?storage=memory", "/v1/matmul")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stalled")
    with RunningServer(
        folder / "data", arena_bytes=ARENA_BYTES, max_bodies=STALLED + 1, arena_idle_seconds=1
    ) as running:
        running.upload(np.ones((1000, 1000)))
        yield running


def announce(server, path, size_bytes):
    """A request whose header says how long its matrix is, and nothing of that."""
    header = Layout(1, size_bytes, "int8").format_header()
    length = len(header) + size_bytes + (path == "/v1/matmul") * 10**6
    request = make_head(path, length) + header
    assert len(request) < 300
    connection = server.connect()
    connection.sendall(request)
    return connection


def count_disk_bytes(server):
    """What unfinished files take."""
    taken = 0
    for path in (server.data_dir / "matrices").glob("*.part"):
        with contextlib.suppress(FileNotFoundError):
            taken += path.stat().st_blocks * 512
    return taken


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("size", SIZES)
def test_stalled_bodies_hold_a_step_each_and_keep_nobody_out(server, path, size):
    size_bytes = SIZES[size]
    wait_until(lambda: server.read_arena("extents") == 1)
    memory_before = measure_resident(server.process.pid)
    with contextlib.ExitStack() as stack:
        for count in (3, STALLED):
            begun = count if count == 3 else count - 3
            for _ in range(begun):
                stack.enter_context(announce(server, path, size_bytes))
            wait_until(lambda: server.read_arena("extents") == 1 + count)  # noqa: B023
            assert count_disk_bytes(server) == 0
            assert server.read_arena("used_bytes") <= 8 * MIB + count * (4 * MIB + 4096)
            grown = measure_resident(server.process.pid) - memory_before
            assert grown < (count + 2) * 4 * MIB + 48 * MIB
        other = np.arange(3 * MIB, dtype=np.float64).reshape(3, -1)
        matrix = server.upload(other)
        assert np.array_equal(server.download(f"/v1/matrices/{matrix}/data"), other)
        assert server.client.delete(f"/v1/matrices/{matrix}").status_code == 204
    wait_until(lambda: server.read_arena("extents") == 1)
    assert server.read_metric("wavetrim_stored_bytes") == 8 * 10**6 + 4096


def read_open_names(process):
    """The names of the files whose descriptors a process has."""
    for link in (process / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            yield link.readlink().name


@pytest.mark.parametrize("path", ["/v1/matrices", "/v1/matmul"])
def test_a_body_in_a_file_takes_no_descriptor_and_goes_with_its_caller(server, path):
    process = Path(f"/proc/{server.process.pid}")

    def count_mapped():
        return (process / "maps").read_text().count(".part")

    with announce(server, path, ARENA_BYTES + MIB) as connection:
        connection.sendall(bytes(9 * MIB))  # more than a 64th
        wait_until(lambda: count_mapped() == 1 and count_disk_bytes(server) > ARENA_BYTES)
        # Its making may be under way.
        wait_until(lambda: not any(".part" in name for name in read_open_names(process)))
    wait_until(lambda: count_mapped() == 0)
    assert count_disk_bytes(server) == 0


def send_to_a_full_disk(server, disk, path, content):
    """Sends a body; when a quarter of it has come, another leaves the database a little disk."""
    with server.connect() as connection:
        connection.sendall(make_head(path, len(content)) + content[: 10 * MIB])
        wait_until(lambda: count_disk_bytes(server) >= 39 * MIB)
        with (disk / "full").open("wb") as other:
            while shutil.disk_usage(disk).free > 3 * MIB:
                other.write(bytes(MIB))
                other.flush()
        with contextlib.suppress(OSError):  # who is refused need not send all
            connection.sendall(content[10 * MIB :])
        status, answer = read_answer(connection)
    (disk / "full").unlink()
    return status, json.loads(answer)


@pytest.mark.needs("mounts")
@pytest.mark.parametrize("arena_bytes", [0, ARENA_BYTES])
def test_a_disk_that_becomes_full_in_the_middle_takes_no_upload_its_space(arena_bytes):
    array = np.arange(6476**2).astype(np.int8).reshape(6476, 6476)  # 40 MiB
    matrix = encode_npy(array)
    with (
        mounted_tmpfs("64m") as disk,
        RunningServer(disk / "data", arena_bytes=arena_bytes, reserve_bytes=0) as running,
    ):
        status, stored = send_to_a_full_disk(running, disk, "/v1/matrices", matrix)
        assert status == 201, stored
        assert np.array_equal(running.download(f"/v1/matrices/{stored['id']}/data"), array)
        assert running.client.delete(f"/v1/matrices/{stored['id']}").status_code == 204
        if not arena_bytes:  # with memory for matrices, a product needs no disk
            status, problem = send_to_a_full_disk(running, disk, "/v1/matmul", 2 * matrix)
            assert (status, problem["field"]) == (507, "matrix size"), problem
            assert 0 < problem["value"] <= 40 * MIB
            assert "free" in problem["limit"]
        assert running.list_matrix_files() == set()
        assert running.read_metric("wavetrim_stored_bytes") == 0
        assert running.upload(np.ones((9, MIB), np.int8))
