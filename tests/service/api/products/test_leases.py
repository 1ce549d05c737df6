"""Leases: products in a caller's own memory, what is refused, and what becomes of the memory."""

import contextlib
import ctypes
import fcntl
import multiprocessing
import os
import signal
import socket
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.leases import Lease, fetch_descriptor
from tests.processes import wait_until
from tests.refusals import expect_refusal
from tests.server import NPY, RunningServer, decode_npy, encode_npy, make_server_fixture, open_http

MIB = 2**20
PUNCH_HOLE = 0x02 | 0x01
RUNNING = 'wavetrim_products{state="running"}'

server = make_server_fixture(
    has_socket=True, arena_bytes=64 * MIB, arena_slab_bytes=64 * MIB, arena_poison=True
)


@pytest.fixture
def client(server):
    with open_http(server.unix_socket) as client:
        yield client


@pytest.fixture
def lease(client):
    with Lease(client, 8 * MIB) as lease:
        yield lease


def describe_arena(client):
    return client.get("/v1/devices").json()["arena"]


def fill(matrix, seed=0):
    matrix[...] = np.random.default_rng(seed).integers(-9, 9, matrix.shape)
    return matrix


def multiply(client, **document):
    return client.post("/v1/matmul", json=document)


def wait_until_given_back(client):
    wait_until(lambda: describe_arena(client)["leases"] == 0)


# Products


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (64, 64, 64), (33, 7, 129), (1, 300, 2)])
def test_the_product_is_written_where_the_lease_has_its_place(client, lease, m, k, n, dtype):
    a, a_place = lease.place(4096, (m, k), dtype)
    b, b_place = lease.place(MIB, (k, n), dtype)
    out, out_place = lease.place(2 * MIB, (m, n), dtype)
    lease.memory[2 * MIB - 64 : 2 * MIB] = 77
    after = 2 * MIB + out.nbytes
    lease.memory[after : after + 64] = 77
    fill(a, 1), fill(b, 2)
    answer = multiply(client, a=a_place, b=b_place, out=out_place)
    assert answer.status_code == 200, answer.text
    np.testing.assert_array_equal(out, a @ b)
    assert set(lease.memory[2 * MIB - 64 : 2 * MIB]) == {77}
    assert set(lease.memory[after : after + 64]) == {77}
    document = answer.json()
    assert document["f"] == document["f_actual"] == m
    assert document["timings"]["total_seconds"] > 0
    assert document["verification"] is None


def test_results_between_operands_and_operands_in_several_leases(client, lease):
    """Halves of one matrix: their ranges overlap, their elements do not."""
    a, a_place = lease.place(0, (50, 50), strides_bytes=(800, 8))
    out, out_place = lease.place(400, (50, 50), strides_bytes=(800, 8))
    with Lease(client, 100) as other:
        b, b_place = other.place(0, (50, 50))
        fill(a, 1), fill(b, 2)
        answer = multiply(client, a=a_place, b=b_place, out=out_place, verify=True)
        assert answer.status_code == 200, answer.text
        assert answer.json()["verification"]["passed"] is True
        np.testing.assert_array_equal(out, a @ b)


def test_operands_are_converted_to_the_results_type(client, lease):
    a, a_place = lease.place(0, (20, 30), "float32")
    b, b_place = lease.place(MIB, (30, 10), "int16")
    out, out_place = lease.place(2 * MIB, (20, 10), "float64")
    fill(a, 1), fill(b, 2)
    assert multiply(client, a=a_place, b=b_place, out=out_place).status_code == 200
    np.testing.assert_array_equal(out, a.astype("float64") @ b)


# Refusals


def place(lease, /, **changed):
    whole = {"lease": lease.id, "offset_bytes": 0, "shape": (16, 16), "dtype": "float64"}
    return {**whole, **changed}


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"offset_bytes": -8}, "a.offset_bytes"),
        ({"offset_bytes": 4}, "a.offset_bytes"),
        ({"offset_bytes": 8 * MIB - 2040}, "a.offset_bytes"),
        ({"offset_bytes": 2**64}, "a.offset_bytes"),
        ({"offset_bytes": 10**300}, "a.offset_bytes"),
        ({"offset_bytes": 0.5}, "a.offset_bytes"),
        ({"shape": (2**33, 2**33)}, "a.offset_bytes"),
        ({"shape": (10**40, 1)}, "a.offset_bytes"),
        ({"shape": (-1, 16)}, "a.shape.0"),
        ({"shape": (0, 10**40)}, "a.columns"),
        ({"shape": (16,)}, "a.shape.1"),
        ({"strides_bytes": (0, 8)}, "a.strides_bytes"),
        ({"strides_bytes": (-128, 8)}, "a.strides_bytes"),
        ({"strides_bytes": (128, 4)}, "a.strides_bytes"),
        ({"strides_bytes": (64, 8)}, "a.strides_bytes"),
        ({"strides_bytes": (10**30, 8)}, "a.offset_bytes"),
        ({"strides_bytes": (2**63, 2**63 + 8)}, "a.strides_bytes"),
        ({"dtype": "object"}, "a.dtype"),
        ({"dtype": "complex256"}, "a.dtype"),
        ({"dtype": ">f8"}, "a.dtype"),
        ({"dtype": "float32"}, None),
        ({"lease": "nobody's"}, "lease"),
        ({"lease": 5}, "a.lease"),
        ({"slab": 1}, "a.slab"),
    ],
)
def test_an_impossible_place_is_refused(client, lease, changed, field):
    lease.memory[:] = 1
    out = place(lease, offset_bytes=MIB)
    a = place(lease, **changed)
    answer = multiply(client, a=a, b=place(lease, offset_bytes=2 * MIB), out=out)
    if field is None:  # of another type, which is converted
        assert answer.status_code == 200, answer.text
        return
    expect_refusal(answer, 404 if field == "lease" else 422, field)
    assert (lease.memory == 1).all(), "nothing is written"


@pytest.mark.parametrize(
    ("offset", "strides", "hit"),
    [
        (0, None, "a"), (2040, None, "a"), (8 * 16 * 16 * 2 - 8, None, "b"), (MIB - 8, None, "c"),
        (8, (1024, 64), "a"),
    ],
)  # fmt: skip
def test_a_result_that_overlaps_an_operand_is_refused(client, lease, offset, strides, hit):
    a, b, c = (place(lease, offset_bytes=offset) for offset in (0, 8 * 16 * 16, MIB))
    out = place(lease, offset_bytes=offset, strides_bytes=strides)
    answer = multiply(client, a=a, b=b, c=c, out=out, beta=1)
    expect_refusal(answer, 422, "out", limit=f"apart from {hit}")


def test_what_does_not_fit_is_refused(client, lease):
    a, b, out = place(lease), place(lease, offset_bytes=MIB), place(lease, offset_bytes=2 * MIB)
    wrong = [
        ({"b": {**b, "shape": (8, 16)}}, "shape of b"),
        ({"out": {**out, "shape": (16, 8)}}, "shape of out"),
        ({"beta": 1}, "c"),
        ({"out": {**out, "dtype": "int32"}}, "dtype of a"),
        ({"f": -1}, "f"),
        ({"f": 99}, "f"),
        ({"kernel": "no such"}, "kernel"),
        ({"alpha": "2"}, "alpha"),
        ({"more": 1}, "more"),
    ]
    for changed, field in wrong:
        answer = multiply(client, **{"a": a, "b": b, "out": out, **changed})
        assert field in expect_refusal(answer, 422)["field"]
    json = {"Content-Type": "application/json"}
    assert client.post("/v1/matmul", content=b"{", headers=json).status_code == 400
    assert client.post("/v1/matmul", content=b" " * 70_000, headers=json).status_code == 413


def test_leases_are_for_callers_over_the_unix_socket(server, lease):
    calls = [
        server.client.post("/v1/leases", json={"bytes": 100}),
        server.client.get("/v1/leases"),
        server.client.delete(f"/v1/leases/{lease.id}"),
        multiply(server.client, a=place(lease), b=place(lease), out=place(lease)),
    ]
    for answer in calls:
        assert answer.status_code == 403, answer.text
        assert answer.json()["type"].endswith("lease-refused")
    assert "other callers send .npy files" in calls[-1].json()["detail"]


def test_a_lease_is_one_of_the_arenas_bytes_or_refused(client):
    for size in (0, -1, "1", 1.5, True):
        assert client.post("/v1/leases", json={"bytes": size}).status_code == 422
    for size in (64 * MIB + 1, 2**63, 2**64, 10**100):
        answer = client.post("/v1/leases", json={"bytes": size})
        expect_refusal(answer, 507, "bytes", limit="WAVETRIM_ARENA_BYTES")
    before = describe_arena(client)["leased_bytes"]
    with Lease(client, 40 * MIB):  # the unused slab of the arena makes room for it
        arena = describe_arena(client)
        assert (arena["leases"], arena["leased_bytes"]) == (1, before + 40 * MIB)
        assert arena["made_bytes"] <= arena["limit_bytes"]
        assert client.post("/v1/leases", json={"bytes": 32 * MIB}).status_code == 507
        big = np.ones((1000, 1000))
        body = encode_npy(big) + encode_npy(big)
        answer = client.post("/v1/matmul", content=body, headers=NPY)
        np.testing.assert_array_equal(decode_npy(answer.content), big @ big)
    wait_until_given_back(client)
    wait_until(lambda: describe_arena(client)["leased_bytes"] == 0)
    with Lease(client, 40 * MIB):
        pass
    wait_until_given_back(client)


def test_without_an_arena_there_are_no_leases(start_server, tmp_path):
    start_server(unix_socket=tmp_path / "socket", arena_bytes=0)
    with open_http(tmp_path / "socket") as client:
        answer = client.post("/v1/leases", json={"bytes": 1})
    expect_refusal(answer, 507, "bytes", limit="WAVETRIM_ARENA_BYTES")


# The descriptor


def test_a_secret_is_worth_a_descriptor_once(client, lease):
    connection, answer, fd = fetch_descriptor(lease.grant["socket"], lease.grant["token"])
    with connection:
        assert fd is None
        assert answer["field"] == "token"
        assert connection.recv(1) == b"", "and the connection ends"
    for token in ("", "x" * 5000, "\n"):
        with fetch_descriptor(lease.grant["socket"], token or "?")[0] as other:
            assert other.recv(1) == b""
    assert lease.id in {one["id"] for one in client.get("/v1/leases").json()["leases"]}


def test_a_lease_is_shown_and_is_not_locked_where_there_is_no_gpu(client, lease):
    shown = client.get(f"/v1/leases/{lease.id}").json()
    assert (shown["id"], shown["bytes"], shown["locked"]) == (lease.id, 8 * MIB, False)
    assert 0 < shown["age_seconds"] < 60
    expect_refusal(client.get("/v1/leases/0"), 404, "lease")


@pytest.mark.gpu
def test_a_lease_is_page_locked_in_the_background(tmp_path):
    path = tmp_path / "socket"
    settings = {"unix_socket": path, "arena_bytes": 512 * MIB, "devices": "0"}
    with (
        RunningServer(tmp_path / "data", **settings),
        open_http(path) as client,
        Lease(client, 64 * MIB) as lease,
    ):

        def is_locked():
            return bool(client.get(f"/v1/leases/{lease.id}").json()["locked"])

        wait_until(is_locked, seconds=30)


def test_the_memory_is_sealed_and_new(client, lease):
    assert not lease.memory.any()
    assert fcntl.fcntl(lease.fd, fcntl.F_GET_SEALS) & (
        fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    )
    for size in (0, MIB, 16 * MIB):
        with pytest.raises(PermissionError):
            os.ftruncate(lease.fd, size)
    with pytest.raises(PermissionError):
        fcntl.fcntl(lease.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    assert fcntl.fcntl(lease.fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC


def test_the_socket_is_its_users_alone(server, lease):
    path = Path(f"{server.unix_socket}.leases")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert lease.grant["socket"] == str(path)


@pytest.mark.needs("root")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_another_user_who_gets_to_the_socket_is_refused(server, client):
    """The file's mode keeps others out; even without it they are not served."""
    path = Path(f"{server.unix_socket}.leases")
    grant = client.post("/v1/leases", json={"bytes": 1}).json()
    # Connected as root, a socket has root's credentials: so connect() is made as another user.
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folders = [folder for folder in path.parents if not folder.stat().st_mode & stat.S_IXOTH]
    modes = {each: each.stat().st_mode for each in (*folders, path)}
    try:
        for each in modes:
            each.chmod(0o777)
        os.seteuid(65534)
        connection.connect(str(path))
    finally:
        os.seteuid(0)
        for each, mode in modes.items():
            each.chmod(mode)
    with connection:
        answer = connection.recv(4096)
        assert b'"user"' in answer
        with contextlib.suppress(BrokenPipeError):
            connection.send(grant["token"].encode())
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(4096) == b""
    client.delete(f"/v1/leases/{grant['id']}")


def test_a_descriptor_that_nobody_fetches_goes_back(client):
    grant = client.post("/v1/leases", json={"bytes": 1}).json()
    assert describe_arena(client)["leases"] == 1
    wait_until_given_back(client)
    with fetch_descriptor(grant["socket"], grant["token"])[0] as connection:
        assert connection.recv(1) == b""


def test_a_lease_ends_when_it_is_deleted(client, lease):
    assert client.delete(f"/v1/leases/{lease.id}").status_code == 204
    assert lease.connection.recv(1) == b"", "its owner sees the end"
    assert client.delete(f"/v1/leases/{lease.id}").status_code == 404
    answer = multiply(client, a=place(lease), b=place(lease), out=place(lease, offset_bytes=MIB))
    assert answer.status_code == 404, answer.text
    wait_until_given_back(client)


# Harm


def test_a_hole_in_a_lease_harms_its_owner_alone(client, lease):
    a, a_place = lease.place(0, (200, 200))
    out, out_place = lease.place(2 * MIB, (200, 200))
    fill(a, 1)
    with Lease(client, 4 * MIB) as other:
        b, b_place = other.place(0, (200, 200))
        fill(b, 2)
        kept = b.copy()
        libc = ctypes.CDLL(None, use_errno=True)
        length = ctypes.c_long(8 * MIB)
        assert libc.fallocate(lease.fd, PUNCH_HOLE, ctypes.c_long(0), length) == 0
        assert multiply(client, a=a_place, b=b_place, out=out_place).status_code == 200
        assert not out.any(), "a hole reads as zeros"
        np.testing.assert_array_equal(b, kept)
        fill(a, 3)
        assert multiply(client, a=a_place, b=b_place, out=out_place).status_code == 200
        np.testing.assert_array_equal(out, a @ b)


def hold_lease(path, ready):
    """A client that dies in the middle of a product, which takes a few seconds."""
    with open_http(path) as client:
        lease = Lease(client, 60 * MIB)
        a = place(lease, shape=(1400, 1400), dtype="int64")  # not a type of BLAS's
        ready.set()
        multiply(client, a=a, b=a, out={**a, "offset_bytes": 32 * MIB})


def test_a_client_that_is_killed_in_a_product_gives_its_lease_back(server, client):
    with Lease(client, 2 * MIB) as other:
        other.memory[:] = 42
        spawn = multiprocessing.get_context("spawn")
        ready = spawn.Event()
        process = spawn.Process(target=hold_lease, args=(server.unix_socket, ready))
        process.start()
        assert ready.wait(60)
        wait_until(lambda: server.read_metric(RUNNING) == 1)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        wait_until(lambda: describe_arena(client)["leases"] == 1)
        wait_until(lambda: describe_arena(client)["made_bytes"] < 60 * MIB)
        with Lease(client, 60 * MIB) as next_one:
            assert not next_one.memory.any()
        assert (other.memory == 42).all()
        a, a_place = other.place(0, (100, 100))
        out, out_place = other.place(MIB, (100, 100))
        fill(a, 1)
        assert multiply(client, a=a_place, b=a_place, out=out_place).status_code == 200
        np.testing.assert_array_equal(out, a @ a)
    assert server.client.get("/healthz/ready").status_code == 200


def test_an_engine_that_is_killed_in_a_product_costs_no_lease(server, client):
    wait_until(lambda: describe_arena(client)["made_bytes"] < 40 * MIB)  # of earlier leases
    with Lease(client, 24 * MIB) as lease:
        a, a_place = lease.place(0, (1200, 1200), "int64")
        out, out_place = lease.place(12 * MIB, (1200, 1200), "int64")
        fill(a, 1)
        with ThreadPoolExecutor(1) as pool:
            pending = pool.submit(
                lambda: multiply(client, a=a_place, b=a_place, out=out_place, verify=True)
            )
            wait_until(lambda: server.read_metric(RUNNING) == 1)
            os.kill(server.find_engine(), signal.SIGKILL)
            answer = pending.result(60)
        assert answer.status_code == 200, answer.text
        expected = (a.astype(np.float64) @ a.astype(np.float64)).astype(np.int64)
        np.testing.assert_array_equal(out, expected)
    assert "killed by signal 9" in server.read_log()


def test_the_end_of_the_service_ends_leases_and_removes_the_socket(start_server, tmp_path):
    server = start_server(unix_socket=tmp_path / "socket", arena_bytes=64 * MIB)
    with open_http(tmp_path / "socket") as client, Lease(client, 4 * MIB) as lease:
        client.close()
        lease.memory[:] = 3
        assert server.stop() == 0
        assert lease.connection.recv(1) == b""
        assert (lease.memory == 3).all(), "it is the owner's while it is mapped"
    assert {path.name for path in tmp_path.iterdir() if path.is_socket()} == set()
    assert "Traceback" not in server.read_log()
