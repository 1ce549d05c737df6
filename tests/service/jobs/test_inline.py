"""The smallest products are computed by the service itself, all others by the engine."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest

from tests.matrices import assert_product, make_matrix
from tests.server import NPY, decode_npy, encode_npy, open_http
from tests.service.api.v2.test_infer import draw_stack, infer, make_client
from wavetrim.service.api.v2.schemas import DATATYPES


@pytest.mark.parametrize("dtype", DATATYPES.values())
def test_the_smallest_products_need_no_engine(server, dtype):
    a, b = make_matrix(5, 9, dtype, 1), make_matrix(9, 7, dtype, 2)
    with server.engine_stopped():
        response = server.multiply(a, np.asfortranarray(b), alpha=2)
    assert response.status_code == 200, response.text
    product = decode_npy(response.content)
    assert_product(product.view(dtype), a, b, alpha=2)
    assert response.headers["wavetrim-f-actual"] == "5"


def test_what_takes_longer_or_asks_for_more_goes_to_the_engine(server):
    small = make_matrix(8, 8, "float64", 3)
    with server.engine_stopped(), open_http(server.url, timeout=0.3) as hurried:
        for matrices, query in (
            ((make_matrix(400, 400, "float64", 4),) * 2, {}),
            ((small, small), {"verify": True}),
            ((small, small), {"f": 8}),
            ((small, small), {"dtype": "float32"}),
            ((small, small, small), {"beta": 1}),
        ):
            with pytest.raises(httpx.ReadTimeout):
                hurried.post(
                    "/v1/matmul", content=b"".join(map(encode_npy, matrices)), headers=NPY,
                    params=query,
                )  # fmt: skip


def test_a_stack_of_small_products_leaves_others_their_turn(server):
    a, b = draw_stack((16_384, 4, 4), 6), draw_stack((16_384, 4, 4), 7)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(infer, make_client(server), a, b)
        answers_meanwhile = 0
        while not waiting.done():
            assert server.client.get("/healthz/live").status_code == 200
            answers_meanwhile += 1
    np.testing.assert_allclose(waiting.result(), a @ b, rtol=0, atol=1e-12)
    assert answers_meanwhile > 3
