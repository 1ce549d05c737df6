"""`Client.matmul` follows NumPy's rules."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.matrices import FLOATS, assert_product, make_matrix
from wavetrim.client import AsyncClient, Client, ServiceRefused

RUNNING = 'wavetrim_products{state="running"}'


@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "uint64"])
def test_a_product_equals_numpys(client, dtype):
    a, b = make_matrix(67, 31, dtype, 0), make_matrix(31, 45, dtype, 1)
    c = client.matmul(a, b)
    assert (c.dtype, c.shape) == (a.dtype, (67, 45))
    assert c.flags.writeable
    assert_product(c, a, b)


def test_operands_may_have_any_strides(client):
    a = make_matrix(400, 300, "float32", 2)[::2, ::3]
    for b in (make_matrix(100, 50, "float32", 3, order="F"), make_matrix(50, 100, "float32", 4).T):
        assert_product(client.matmul(a, b), a, b)


def test_vectors_are_a_row_and_a_column(client):
    a, x = make_matrix(7, 5, "float64", 5), np.arange(5.0)
    for left, right in ((a, x), (x, a.T), (x, x)):
        product = client.matmul(left, right)
        assert product.shape == np.shape(np.matmul(left, right))
        np.testing.assert_allclose(product, np.matmul(left, right))


def test_the_product_is_received_into_out(client):
    a, b = make_matrix(30, 20, "float32", 6), make_matrix(20, 10, "float32", 7)
    for out in (
        np.zeros((30, 10), np.float32),
        np.zeros((30, 10), np.float32, order="F"),
        np.zeros((60, 20), np.float32)[::2, ::2],
    ):
        assert client.matmul(a, b, alpha=2.0, out=out) is out
        assert_product(out, a, b, alpha=2.0)
    vector = np.zeros(30, np.float32)
    assert client.matmul(a, b[:, 0], out=vector) is vector
    assert_product(vector[:, None], a, b[:, :1])


def test_out_may_be_an_operand(client):
    a = make_matrix(40, 40, "float64", 8)
    expected = a @ a
    client.matmul(a, a, out=a)
    np.testing.assert_allclose(a, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_c_is_added_beta_times_and_may_be_out(client, dtype):
    a, b, c = (make_matrix(*shape, dtype, 0) for shape in ((31, 20), (20, 11), (31, 11)))
    before = c.copy()
    assert_product(client.matmul(a, b, c=c, alpha=2.0, beta=-3.0), a, b, c, alpha=2.0, beta=-3.0)
    np.testing.assert_array_equal(c, before)
    assert client.matmul(a, b, c=c, beta=2.0, out=c, verify=True) is c
    assert_product(c, a, b, before, beta=2.0)


def test_c_promotes_and_the_products_type_may_be_chosen(client):
    a, b = make_matrix(31, 20, "float32", 2), make_matrix(20, 11, "float32", 3)
    c = make_matrix(11, 62, "float64", 4).T[::2]
    product = client.matmul(a, b, c=c, beta=1.0)
    assert product.dtype == client.matmul(a, b, dtype="float64").dtype == np.float64
    assert_product(product, a.astype("f8"), b.astype("f8"), c, beta=1.0)


def test_details_tell_how_it_was_computed(client):
    a = make_matrix(64, 64, "float32", 9)
    product, details = client.matmul_with_details(a, a, f="auto", accuracy="library")
    assert_product(product, a, a)
    assert (details.f, details.f_actual) == (64, 64)
    assert details.seconds["total"] > 0


def test_refusals_name_field_value_and_limit(client):
    a = make_matrix(8, 8, "float32", 10)
    with pytest.raises(ServiceRefused, match="f is 9") as refused:
        client.matmul(a, a, f=9)
    assert (refused.value.status, refused.value.field, refused.value.value) == (422, "f", 9)
    assert refused.value.limit is not None
    with pytest.raises(ServiceRefused, match="kernel is 'magic'"):
        client.matmul(a, a, kernel="magic")
    assert client.matmul(a, a).shape == (8, 8), "the client goes on after a refusal"


def test_a_product_larger_than_socket_buffers_is_right(client):
    a = make_matrix(1500, 1000, "float64", 11)  # 12 MB: far more than any socket's buffers
    b = make_matrix(1000, 1200, "float64", 12)
    assert_product(client.matmul(a, b), a, b)


def test_threads_share_a_client(shared_server):
    matrices = [make_matrix(33, 33, "float64", seed) for seed in range(8)]
    with Client(shared_server.url) as client, ThreadPoolExecutor(8) as pool:
        products = [*pool.map(lambda a: client.matmul(a, a), matrices * 4)]
    for a, product in zip(matrices * 4, products, strict=True):
        assert_product(product, a, a)


def test_tasks_share_a_client_without_blocking_the_loop(unix_socket):
    # int64 has no fast product: each takes long enough that its answer cannot be there at once.
    matrices = [make_matrix(300, 300, "int64", seed) for seed in range(8)]
    finished = []

    async def go_on():
        await asyncio.sleep(0)  # one step of the loop: a client that waits would take none
        finished.append("the loop")

    async def multiply(client, a):
        product = await client.matmul(a, a)
        finished.append("a product")
        return product

    async def multiply_all():
        async with AsyncClient(unix_socket) as client:
            waiting = [multiply(client, a) for a in matrices]
            return (await asyncio.gather(go_on(), *waiting))[1:]

    for a, product in zip(matrices, asyncio.run(multiply_all()), strict=True):
        assert_product(product, a, a)
    assert finished == ["the loop"] + ["a product"] * 8


def test_cancelling_a_task_cancels_its_product(shared_server):
    slow = make_matrix(2000, 2000, "int64", 13)

    async def give_up():
        async with AsyncClient(shared_server.url) as client:
            with shared_server.engine_stopped():
                task = asyncio.create_task(client.matmul(slow, slow))
                while shared_server.read_metric(RUNNING) == 0:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await asyncio.sleep(2.2)  # a caller's leaving is seen within two seconds
            while shared_server.read_metric(RUNNING) > 0:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    def count_cancelled():
        return shared_server.read_metric('wavetrim_jobs_finished_total{state="cancelled"}')

    before = count_cancelled()

    asyncio.run(give_up())
    assert count_cancelled() == before + 1
