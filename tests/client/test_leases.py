"""Arrays in leases: the client names them instead of sending them, and returns their memory."""

import gc
import os
import signal
from multiprocessing import get_context

import numpy as np
import pytest

from tests.client.proxy import run_proxy
from tests.clients import close_client, open_client
from tests.matrices import FLOATS, assert_product, make_matrix
from tests.processes import wait_until
from tests.server import make_server_fixture, open_http
from wavetrim.client import Client, ServiceRefused

MIB = 2**20
RECEIVED = "wavetrim_received_bytes_total"


server = make_server_fixture(has_socket=True, arena_bytes=128 * MIB, arena_poison=True)


@pytest.fixture
def local(server, kind):
    """A client over the Unix socket."""
    opened = open_client(kind, server.unix_socket)
    yield opened
    close_client(opened)


def wait_for_leases(server, count):
    """Wait until there are so many, without those of arrays that are garbage."""
    wait_until(lambda: gc.collect() >= 0 and server.read_arena("leases") == count)


def make_there(client, array):
    there = client.empty(array.shape, array.dtype)
    there[...] = array
    return there


@pytest.mark.parametrize("dtype", [*FLOATS, "int64"])
def test_arrays_in_a_lease_are_not_sent(server, local, dtype):
    a, b, c = (make_matrix(300, 300, dtype, seed) for seed in (1, 2, 3))
    before = server.read_metric(RECEIVED)
    there = [make_there(local, each) for each in (a, b, c)]
    product = local.matmul(there[0], there[1])
    assert_product(product, a, b)
    out = local.empty((300, 300), dtype)
    kept = out
    product, details = local.matmul_with_details(*there[:2], c=there[2], alpha=2, beta=1, out=out)
    assert product is out is kept
    assert_product(out, a, b, c, alpha=2, beta=1)
    assert details.f_actual == 300
    assert details.seconds["total"] > 0
    assert server.read_metric(RECEIVED) == before


def test_products_of_views_and_vectors_in_leases_equal_numpys(local):
    base = make_there(local, make_matrix(200, 200, "float64", 4))
    views = [base[::2, ::3], base.T[:100], base[:100], base[::-1], base[:5, 199:]]
    other = make_matrix(200, 200, "float64", 5)
    for left in views:
        right = other[: left.shape[1]]
        np.testing.assert_allclose(local.matmul(left, right), left @ right)
        np.testing.assert_allclose(local.matmul(right.T, left.T), right.T @ left.T)
    np.testing.assert_allclose(local.matmul(base, base[0]), base @ base[0])
    np.testing.assert_allclose(local.matmul(base[0], base), base[0] @ base)
    assert local.matmul(base[0], base[0]).shape == ()
    single = local.matmul(base, other.astype("float32"))
    assert single.dtype == np.float64
    window = np.lib.stride_tricks.sliding_window_view(base[0], 50)
    np.testing.assert_allclose(local.matmul(window, base[:50]), window @ base[:50])
    assert local.matmul(base, other, dtype="float32").dtype == np.float32


def test_out_may_have_any_layout_or_be_an_operand(local):
    a, b = (make_there(local, make_matrix(100, 100, "float64", seed)) for seed in (6, 7))
    expected = a @ b
    for out in (
        np.zeros((100, 100)),
        np.zeros((100, 100), order="F"),
        np.zeros((200, 200))[::2, ::2],
        local.empty((100, 100), "float64").T,
        local.empty((200, 200), "float64")[1::2, ::2],
    ):
        assert local.matmul(a, b, out=out) is out
        np.testing.assert_allclose(out, expected)
    assert local.matmul(a, b, out=a) is a, "the result may replace an operand"
    np.testing.assert_allclose(a, expected)


def test_large_ordinary_arrays_are_copied_into_a_lease(server, local):
    before, leases = server.read_metric(RECEIVED), server.read_arena("leases")
    a, b = make_matrix(500, 400, "float64", 8), make_matrix(400, 500, "float64", 9)
    out = np.empty((500, 500))
    for _ in range(3):
        assert_product(local.matmul(a, b), a, b)
        local.matmul(a, b, out=out)
        assert_product(out, a, b)
    assert server.read_metric(RECEIVED) == before
    assert server.read_arena("leases") == leases + 1, "one lease is reused"


def test_refusals_are_the_same_as_without_leases(local):
    a = make_there(local, np.eye(100))
    with pytest.raises(ServiceRefused, match="f is 101"):
        local.matmul(a, a, f=101)
    with pytest.raises(ValueError, match="b has 100 rows"):
        local.matmul(a[:, :50], a)
    np.testing.assert_array_equal(local.matmul(a, a), np.eye(100))


def test_memory_of_leases_is_reused_and_returned(server, kind):
    wait_for_leases(server, 0)
    client = open_client(kind, server.unix_socket)
    for size in (1, 5, 12, 3, 9, 40, 2):
        array = client.empty((size, MIB), "uint8")
        array[:] = size
        assert (
            client.matmul(array[:, :100].astype("int64"), np.ones(100, int)) == size * 100
        ).all()
    del array
    gc.collect()
    client.empty(10)
    assert server.read_arena("leases") <= 2
    kept = client.empty((100, 100))
    kept[:] = 5
    close_client(client)
    assert server.read_arena("leases") == 1, "an array is left"
    assert (kept == 5).all()
    del kept
    wait_for_leases(server, 0)


def test_after_a_lost_answer_no_array_is_placed_where_the_product_may_still_be_written(
    server, kind
):
    wait_for_leases(server, 0)
    a, b = make_matrix(500, 400, "float64", 1), make_matrix(400, 500, "float64", 2)
    with run_proxy(server.unix_socket, b"POST /v1/matmul ", lose=1) as proxy:
        client = open_client(kind, proxy.url)
        there = make_there(client, a)
        product = client.matmul(there, b)
        assert proxy.lost == [200]
        assert_product(product, a, b)
        assert server.read_arena("leases") == 1
        further = client.empty((500, 500), "float64")
        assert server.read_arena("leases") == 2, "it is in a lease of its own"
        del there, product
        wait_for_leases(server, 1)
        assert_product(client.matmul(a, b, out=further), a, b)
        close_client(client)
    assert server.read_arena("leases") == 1, "an array is left"


def test_a_forked_process_leaves_the_leases_to_its_parent(server):
    wait_for_leases(server, 0)
    with Client(server.unix_socket) as client:
        a, b = (make_there(client, make_matrix(100, 100, "float64", seed)) for seed in (1, 2))
        expected = a @ b
        multiply = lambda: assert_product(client.matmul(a, make_there(client, b)), a, b)  # noqa: E731
        child = get_context("fork").Process(target=multiply)
        child.start()
        child.join()
        assert child.exitcode == 0
        out = client.empty((100, 100), "float64")
        np.testing.assert_allclose(client.matmul(a, b, out=out), expected)
        assert server.read_arena("leases") == 1


def test_without_room_arrays_are_ordinary(local):
    large = local.empty((256, MIB), "uint8")
    large[:] = 1
    small = make_there(local, make_matrix(50, 50, "float32", 1))
    assert_product(local.matmul(small, small), small, small)


def test_over_tcp_arrays_are_ordinary(server, kind):
    client = open_client(kind, server.url)
    a = make_there(client, make_matrix(600, 600, "float64", 1))
    assert_product(client.matmul(a, a, out=client.empty((600, 600), "float64")), a, a)
    assert server.read_arena("leases") == 0
    close_client(client)


def test_a_restarted_service_is_asked_for_new_leases(start_server, tmp_path, kind):
    path = tmp_path / "socket"
    first = start_server(unix_socket=path, arena_bytes=64 * MIB)
    first.wait_ready()
    client = open_client(kind, path)
    a = make_there(client, make_matrix(300, 300, "float64", 1))
    expected = a @ a
    np.testing.assert_allclose(client.matmul(a, a), expected)
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait()
    second = start_server(unix_socket=path, arena_bytes=64 * MIB)
    second.wait_ready()
    np.testing.assert_allclose(client.matmul(a, a), expected, err_msg="the bytes are still there")
    np.testing.assert_allclose(client.matmul(make_there(client, a), a), expected)
    with open_http(path) as asking:
        assert len(asking.get("/v1/leases").json()["leases"]) == 1
    assert second.read_metric(RECEIVED) > 0
    close_client(client)
