"""A product in one call, computed by the real engine."""

import time

import numpy as np
import pytest

from tests.matrices import assert_product
from tests.processes import wait_until
from tests.refusals import expect_refusal
from tests.server import NPY, decode_npy, encode_npy, make_server_fixture
from tests.service.api.matrices.test_uploads import digest
from tests.service.api.wire.wire_server import make_head


def make_array(rows, columns, dtype="float64", seed=0):
    return np.random.default_rng(seed).integers(-9, 9, (rows, columns)).astype(dtype)


def check_nothing_left(server):
    assert server.list_matrix_files() == set()
    metrics = server.client.get("/metrics").text
    assert "wavetrim_stored_bytes 0.0" in metrics
    assert 'wavetrim_products{state="waiting"} 0.0' in metrics
    assert 'wavetrim_products{state="running"} 0.0' in metrics
    assert 'wavetrim_arena{what="used_bytes"} 0.0' in metrics
    assert server.client.get("/v1/jobs").json()["jobs"] == [], "no row is made"


@pytest.mark.parametrize("size", [20, 200])
def test_bfloat16_comes_and_goes_as_numpy_saves_it(server, size):
    a, b = make_array(size, size, "bfloat16", 1), make_array(size, size, "bfloat16", 2)
    response = server.multiply(a, b, verify=True)
    product = decode_npy(response.content)
    assert product.dtype == np.dtype("V2"), "NumPy reads raw bytes"
    assert response.content == encode_npy(product.view("bfloat16"))
    assert_product(product.view("bfloat16"), a, b)


@pytest.mark.parametrize("wanted", ["bfloat16", "float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("dtypes", [("bfloat16",) * 2, ("float16", "int8"), ("float32", "int16")])
@pytest.mark.parametrize("size", [3, 200])
def test_the_result_has_the_type_that_is_asked_for(server, dtypes, wanted, size):
    a, b = (make_array(size, size, dtype, seed) for seed, dtype in enumerate(dtypes))
    product = decode_npy(server.multiply(a, b, dtype=wanted).content)
    exact = a.astype(float) @ b.astype(float)
    np.testing.assert_array_equal(product.view(wanted), exact.astype(wanted))


def test_a_missing_matrix_is_called_by_its_place(server):
    for size in (3, 300):
        a = make_array(size, size)
        one = server.multiply(a).json()
        assert "no second matrix, B" in one["limit"], one
        two = server.multiply(a, a, beta=1).json()
        assert "no third matrix, C" in two["limit"], two


without_arena = make_server_fixture(arena_bytes=0)


def test_without_an_arena_files_serve(without_arena):
    for size in (5, 300):
        a, b = make_array(size, size, seed=1), make_array(size, size, seed=2)
        np.testing.assert_array_equal(decode_npy(without_arena.multiply(a, b).content), a @ b)
    wait_until(lambda: without_arena.list_matrix_files() == set())  # they go after the answer
    assert without_arena.client.get("/v1/devices").json()["arena"] is None


def test_what_the_arena_has_no_room_for_goes_through_files(start_server):
    server = start_server(arena_bytes=4 * 2**20)
    a = make_array(1000, 1000, seed=1)
    np.testing.assert_array_equal(decode_npy(server.multiply(a, a).content), a @ a)
    arena = server.client.get("/v1/devices").json()["arena"]
    assert arena["refusals"] > 0
    assert arena["used_bytes"] == 0
    assert server.list_matrix_files() == set()


def test_an_accuracy_can_be_asked_for(server):
    a = make_array(30, 30)
    response = server.multiply(a, a, accuracy="strict")
    assert response.status_code == 200
    assert "wavetrim-accuracy" not in response.headers, "no kernel has run"


def test_server_timing_has_every_part_in_milliseconds(server):
    began = time.perf_counter()
    response = server.multiply(make_array(300, 300), make_array(300, 300))
    passed_milliseconds = (time.perf_counter() - began) * 1e3
    parts = dict(part.split(";dur=") for part in response.headers["server-timing"].split(", "))
    assert {"cpu", "total", "queue"} <= set(parts)
    assert 0 < float(parts["cpu"]) <= float(parts["total"]) < passed_milliseconds
    assert 0 <= float(parts["queue"]) < passed_milliseconds


@pytest.mark.parametrize(
    ("a", "b", "query", "status", "field"),
    [
        (make_array(3, 4), make_array(5, 6), {}, 422, "shape of b"),
        (make_array(3, 4), make_array(4, 5, "float32"), {}, 422, None),
        (make_array(3, 4), make_array(4, 5), {"f": 2}, 422, "f"),
        (make_array(3, 4), make_array(4, 5), {"f": "some"}, 422, None),
        (make_array(3, 4), make_array(4, 5), {"kernel": "none"}, 422, "kernel"),
        (make_array(3, 4), make_array(4, 5), {"accuracy": "float32"}, 422, "accuracy"),
        (make_array(3, 4), make_array(4, 5), {"sms": 7}, 422, "sms"),
        (make_array(3, 4), make_array(4, 5), {"beta": 1}, 400, "body"),
        (make_array(3, 4), make_array(4, 5), {"beta": "inf"}, 422, "beta"),
        (make_array(3, 4), make_array(4, 5), {"gamma": 1}, 422, "gamma"),
        (make_array(3, 4), make_array(4, 5), {"dtype": "int8"}, 422, "dtype of a"),
        (make_array(3, 4), make_array(4, 5), {"dtype": "complex256"}, 422, "dtype"),
        (make_array(3, 4, "complex64"), make_array(4, 5), {"dtype": "bfloat16"}, 422, "dtype of a"),
        (make_array(3, 4, "bfloat16"), make_array(4, 5), {"dtype": "int32"}, 422, "dtype of a"),
        (make_array(3, 4, "complex64"), make_array(4, 5), {"alpha": "1j"}, 422, "alpha"),
        (make_array(3, 4), make_array(4, 5), {"alpha": "nan"}, 422, "alpha"),
        (make_array(3, 4), np.zeros(4), {}, 400, "shape"),
        (make_array(3, 4), np.zeros((4, 5), ">f8"), {}, 415, "descr"),
    ],
)
def test_what_cannot_be_multiplied_is_refused_and_removed(server, a, b, query, status, field):
    assert expect_refusal(server.multiply(a, b, **query), status, field)["limit"]
    check_nothing_left(server)


def test_bodies_of_the_wrong_length_are_refused_and_removed(server):
    a = encode_npy(make_array(3, 4))
    for content in (b"", a, a[:-1], a + a[:50], a + a[:-1], a + a + b"x"):
        response = server.client.post("/v1/matmul", content=content, headers=NPY)
        expect_refusal(response, 400, "body")
    check_nothing_left(server)


def test_a_digest_covers_both_files(server):
    a, b = make_array(3, 4), make_array(4, 5)
    good = {"Content-Digest": digest(encode_npy(a) + encode_npy(b))}
    assert server.multiply(a, b, headers=good).status_code == 200
    assert server.multiply(b.T, a.T, headers=good).status_code == 400
    check_nothing_left(server)


@pytest.mark.parametrize("which", ["server", "without_arena"])
def test_nothing_is_left_of_a_product_whose_caller_leaves_at_any_moment(request, which):
    server = request.getfixturevalue(which)
    slow = 2 * encode_npy(np.ones((1400, 1400), np.int64))
    wide = encode_npy(np.ones((3000, 1))) + encode_npy(np.ones((1, 3000)))
    with send_product(server, slow):
        wait_until(lambda: server.read_metric('wavetrim_products{state="running"}') == 1)
        with send_product(server, slow), send_product(server, wide):
            wait_until(lambda: server.read_metric('wavetrim_products{state="waiting"}') == 2)
        wait_until(lambda: server.read_metric('wavetrim_products{state="waiting"}') == 0)
    with send_product(server, wide) as reading:
        assert reading.recv(12) == b"HTTP/1.1 200"
    with send_product(server, slow[: len(slow) * 3 // 4], declared=len(slow)):
        wait_until(lambda: count_in_flight(server) > 0)
    with send_product(server, slow):
        wait_until(lambda: server.read_metric('wavetrim_products{state="running"}') == 1)
    wait_until(lambda: count_in_flight(server) == 0 and not server.list_matrix_files())
    wait_until(lambda: server.read_arena("used_bytes") == 0)
    wait_until(lambda: server.read_metric('wavetrim_products{state="running"}') == 0)
    assert not server.list_matrix_files()
    assert "incident" not in server.read_log()


def send_product(server, content, declared=None):
    """A connection that has posted a product, or the beginning of one."""
    connection = server.connect()
    connection.sendall(make_head("/v1/matmul", declared or len(content)) + content)
    return connection


def count_in_flight(server):
    return server.client.get("/v1/me").json()["bytes_in_flight"]["used"]
