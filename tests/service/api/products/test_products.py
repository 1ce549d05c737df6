"""The product is NumPy's at every door: in one call, as a job, and by the Open Inference Protocol.

So are those of stacks, and products without rows, columns or terms.
"""

from functools import partial

import numpy as np
import pytest

import wavetrim
from tests.matrices import assert_product
from tests.server import decode_npy, make_server_fixture
from tests.service.api.v2.test_infer import draw_stack, infer, make_client
from wavetrim.scheduler.problem import ITEM_BYTES
from wavetrim.service.api.v2.schemas import NAMES

server = make_server_fixture(arena_poison=True)


def multiply_in_one_call(server, arrays, **asked):
    answer = server.multiply(*arrays, **asked)
    assert answer.status_code == 200, answer.text
    return decode_npy(answer.content)


def multiply_as_job(server, arrays, **asked):
    named = dict(zip("abc", map(server.upload, arrays), strict=False))
    job = server.run_job(**named, **asked)
    return server.download(f"/v1/jobs/{job['id']}/result")


def multiply_by_protocol(server, arrays, *, binary, **asked):
    return infer(make_client(server), *arrays, binary=binary, parameters=asked)


FILES = {"one call": multiply_in_one_call, "job": multiply_as_job}
DOORS = FILES | {
    name: partial(multiply_by_protocol, binary=name == "tensors") for name in ("tensors", "JSON")
}
TYPES = {
    **dict.fromkeys(FILES, ITEM_BYTES),
    "tensors": NAMES,
    "JSON": [one for one in NAMES if one != "bfloat16"],  # which the public client lacks
}
SHAPES = [
    [(1, 1), (1, 1)],
    [(33, 64), (64, 31)],
    [(7, 257), (257, 5), (7, 5)],
    [(301, 300), (300, 200)],
    [(4, 2, 3), (4, 3, 5)],
    [(4, 2, 3), (3, 5)],
    [(2, 3), (4, 3, 5)],
    [(1, 2, 3), (4, 3, 5)],
    [(4, 2, 3), (1, 3, 5)],
    [(1, 2, 3), (1, 3, 5)],
    [(1, 2, 3), (3, 5)],
    [(4, 2, 3), (3, 5), (4, 2, 5)],
    [(4, 2, 3), (3, 5), (2, 5)],
    [(4, 2, 3), (4, 3, 5), (1, 2, 5)],
    [(2, 3), (3, 5), (4, 2, 5)],
    [(7, 1, 1), (7, 1, 1)],
    [(3, 57, 31), (3, 31, 129), (3, 57, 129)],
    [(2, 301, 200), (2, 200, 190)],
    [(700, 13, 7), (700, 7, 9)],
]
EMPTY = [
    *([(0, 4), (4, 3)], [(3, 0), (0, 4)], [(3, 4), (4, 0)], [(0, 0), (0, 0)], [(0, 0), (0, 3)]),
    *([(300, 0), (0, 200), (300, 200)], [(0, 2, 3), (0, 3, 4)], [(0, 2, 3), (3, 4)]),
    *([(2, 3), (0, 3, 4)], [(0, 2, 3), (1, 3, 4)], [(5, 0, 3), (5, 3, 4)]),
    *([(5, 2, 3), (5, 3, 0)], [(5, 2, 0), (5, 0, 4)], [(5, 2, 0), (0, 4)]),
    [(5, 2, 0), (5, 0, 4), (2, 4)],
]
in_every_door = pytest.mark.parametrize("door", DOORS)


def draw(shapes, dtype="float64"):
    return [draw_stack(shape, seed, dtype) for seed, shape in enumerate(shapes)]


def check_product(door, server, arrays, *, sent=None, **asked):
    """2·A·B, and + 3·C if there is one; `sent` are the arrays in another order."""
    dtype, beta = arrays[0].dtype, 3.0 * (len(arrays) > 2)
    found = DOORS[door](server, sent or arrays, alpha=2, beta=beta, **asked)
    assert found.dtype == ("V2" if dtype == "bfloat16" and door in FILES else dtype)
    stack = np.broadcast_shapes(*(one.shape[:-2] for one in arrays))
    assert found.shape == (*stack, arrays[0].shape[-2], arrays[1].shape[-1])
    each = [np.broadcast_to(one, (*(stack or (1,)), *one.shape[-2:])) for one in arrays]
    products = found.view(dtype).reshape(-1, *found.shape[-2:])
    for product, *matrices in zip(products, *each, strict=True):
        assert_product(product, *matrices, alpha=2, beta=beta)


@in_every_door
@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_the_product_is_numpys_at_every_door(server, door, shapes, verify):
    check_product(door, server, draw(shapes), verify=verify)


@pytest.mark.parametrize(("door", "dtype"), [(door, one) for door in DOORS for one in TYPES[door]])
def test_the_product_is_numpys_in_every_element_type(server, door, dtype):
    for shapes in ([(5, 7), (7, 3), (5, 3)], [(5, 7, 3), (5, 3, 4), (7, 4)]):
        check_product(door, server, draw(shapes, dtype))
    for size in (20, 200):
        check_product(door, server, draw([(size, size)] * 2, dtype), verify=True)


@pytest.mark.parametrize("door", FILES)
@pytest.mark.parametrize("names", ["A", "B", "ABC"])
@pytest.mark.parametrize("shapes", [SHAPES[2], SHAPES[-3]], ids=str)
def test_files_in_fortran_order_are_read_as_numpy_does(server, door, names, shapes):
    arrays = draw(shapes)
    named = zip("ABC", arrays, strict=True)
    sent = [np.asfortranarray(one) if name in names else one for name, one in named]
    check_product(door, server, arrays, sent=sent)


@in_every_door
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("shapes", EMPTY, ids=str)
def test_an_empty_product_is_as_in_process(server, door, shapes, dtype):
    arrays = [np.ones(shape, dtype) for shape in shapes]
    beta = 2.0 * (len(arrays) > 2)
    expected = arrays[0] @ arrays[1] + (2 * arrays[2] if beta else np.zeros((), dtype))
    for verify in (False, True):
        found = DOORS[door](server, arrays, beta=beta, verify=verify)
        np.testing.assert_array_equal(found, expected, strict=True)
    if len(shapes) == 2:
        np.testing.assert_array_equal(expected, wavetrim.matmul(*arrays), strict=True)
