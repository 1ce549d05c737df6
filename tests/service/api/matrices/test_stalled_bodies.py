"""Bodies that are announced and do not come hold hardly any disk and memory."""

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest

from tests.mounts import mounted_tmpfs
from tests.processes import wait_until
from tests.server import RunningServer, encode_npy
from tests.service.api.wire.wire_server import make_head, read_answer
from wavetrim.service.storage.matrices.npy import format_header

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
    header = format_header(1, size_bytes, "int8")
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


def count_files(server):
    return len(list((server.data_dir / "matrices").glob("*.part")))


def count_memory_bytes(server):
    """All that the service's process has, matrices among it."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("size", SIZES)
def test_stalled_bodies_hold_a_step_each_and_keep_nobody_out(server, path, size):
    size_bytes = SIZES[size]
    in_file = size_bytes > ARENA_BYTES
    if in_file and "memory" in path:
        with announce(server, path, size_bytes) as connection:
            assert read_answer(connection)[0] == 507
        return
    wait_until(lambda: count_files(server) == 0 and server.read_arena("extents") == 1)
    memory_before = count_memory_bytes(server)
    with contextlib.ExitStack() as stack:
        for count in (3, STALLED):
            begun = count if count == 3 else count - 3
            for _ in range(begun):
                stack.enter_context(announce(server, path, size_bytes))
            wait_until(
                lambda: (
                    count_files(server) == count  # noqa: B023
                    if in_file
                    else server.read_arena("extents") == 1 + count  # noqa: B023
                )
            )
            assert count_disk_bytes(server) <= count * 4 * MIB
            assert server.read_arena("used_bytes") <= 8 * MIB + count * (4 * MIB + 4096)
            assert count_memory_bytes(server) - memory_before < (count + 2) * 4 * MIB + 48 * MIB
        other = np.arange(3 * MIB, dtype=np.float64).reshape(3, -1)
        matrix = server.upload(other)
        assert np.array_equal(server.download(f"/v1/matrices/{matrix}/data"), other)
        assert server.client.delete(f"/v1/matrices/{matrix}").status_code == 204
    wait_until(lambda: count_files(server) == 0 and server.read_arena("extents") == 1)
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

    with announce(server, path, SIZES["larger than all memory for matrices"]) as connection:
        connection.sendall(bytes(5 * MIB))
        wait_until(lambda: count_mapped() == 1 and count_disk_bytes(server) > 4 * MIB)
        # A step of it may be under way, whose descriptor is closed after it.
        wait_until(lambda: not any(".part" in name for name in read_open_names(process)))
    wait_until(lambda: count_mapped() == 0)


def send_to_a_full_disk(server, disk, path, content):
    """Sends a body; when a quarter of it has come, another takes all the disk."""
    with server.connect() as connection:
        connection.sendall(make_head(path, len(content)) + content[: 10 * MIB])
        wait_until(lambda: 8 * MIB <= count_disk_bytes(server) <= 20 * MIB)
        with contextlib.suppress(OSError), (disk / "full").open("wb") as other:
            while other.write(bytes(MIB)):
                other.flush()
        with contextlib.suppress(OSError):  # who is refused need not send all
            connection.sendall(content[10 * MIB :])
        status, problem = read_answer(connection)
    assert status == 507, problem
    return problem


@pytest.mark.needs("mounts")
@pytest.mark.parametrize("arena_bytes", [0, ARENA_BYTES])
def test_a_disk_that_becomes_full_in_the_middle_is_told_and_nothing_stays(arena_bytes):
    matrix = encode_npy(np.ones((40, MIB), np.int8))
    # With memory for matrices, a product needs no disk.
    bodies = {"/v1/matrices": matrix} | ({} if arena_bytes else {"/v1/matmul": matrix + matrix})
    with (
        mounted_tmpfs("64m") as disk,
        RunningServer(disk / "data", arena_bytes=arena_bytes, reserve_bytes=0) as running,
    ):
        small = running.upload(np.ones((4, 4)))
        for path, content in bodies.items():
            problem = json.loads(send_to_a_full_disk(running, disk, path, content))
            assert problem["field"] == "matrix size"
            assert 40 * MIB <= problem["value"] <= 40 * MIB + 4096
            # The service looks at the disk in time, or a write finds it full first.
            assert "free" in problem["limit"] or "No space left" in problem["limit"]
            assert running.list_matrix_files() == {f"{small}.npy"}
            assert running.read_metric("wavetrim_stored_bytes") == 256
            (disk / "full").unlink()
        assert running.upload(np.ones((9, MIB), np.int8))
