"""Stacks over HTTP, in one call and as jobs: `numpy.matmul` of files with three dimensions."""

import numpy as np
import pytest

from tests.refusals import expect_refusal
from tests.server import NPY, RunningServer, decode_npy, encode_npy, make_server_fixture
from tests.service.api.v2.test_infer import draw_stack as draw

MIB = 2**20

server = make_server_fixture(arena_poison=True)

without_arena = make_server_fixture(arena_bytes=2 * MIB)


def run_job(server, a, b, **options):
    """A job's record and its result, fetched as a file."""
    job = server.run_job(a, b, **options)
    return job, server.download(f"/v1/matrices/{job['result']}/data")


def test_a_given_f_is_that_of_each_product(server):
    a, b = draw((3, 4, 5), 1), draw((5, 6), 2)
    answer = server.multiply(a, b, f=4)
    np.testing.assert_allclose(decode_npy(answer.content), a @ b, rtol=0, atol=1e-12)
    assert answer.headers["wavetrim-f"] == answer.headers["wavetrim-f-actual"] == "12"
    assert server.multiply(a, b).headers["wavetrim-f"] == "12", "one product of all rows"
    assert server.multiply(a, b, f=5).json()["field"] == "f"


@pytest.mark.parametrize(
    ("shapes", "field", "value"),
    [
        ([(4, 2, 3), (5, 3, 4)], "shape of b", [5, 3, 4]),
        ([(4, 2, 3), (4, 2, 4)], "shape of b", [4, 2, 4]),
        ([(4, 2, 3), (4, 3, 4), (3, 2, 4)], "shape of c", [3, 2, 4]),
        ([(4, 2, 3), (4, 3, 4), (4, 2, 5)], "shape of c", [4, 2, 5]),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_with_field_value_and_limit(server, shapes, field, value):
    arrays = [np.zeros(shape) for shape in shapes]
    expect_refusal(server.multiply(*arrays, beta=len(arrays) - 2), 422, field, value=value)


def test_a_job_of_stored_stacks_makes_a_stack(server):
    a, b = draw((6, 40, 30), 1, "float32"), draw((6, 30, 20), 2, "float32")
    record = server.client.get(f"/v1/matrices/{server.upload(a)}").json()
    assert (record["shape"], record["bytes"]) == ([6, 40, 30], len(encode_npy(a)))
    job, found = run_job(server, a, b, alpha=2, verify=True)
    assert (job["plan"]["stack"], job["plan"]["f"], job["timings"]["f_actual"]) == (6, 40, 240)
    assert job["verification"]["elements_checked"] == 6 * 40 * 20
    np.testing.assert_allclose(found, 2 * (a @ b), rtol=1e-4, atol=1e-4)
    path = f"/v1/matrices/{job['result']}/data"
    part = server.client.get(path, headers={"Range": "bytes=128-131"})
    assert part.content == encode_npy(found)[128:132]
    listed = server.client.get("/v1/matrices").json()["matrices"]
    assert [6, 40, 20] in [one["shape"] for one in listed]


def test_a_job_of_a_stack_with_one_b_is_one_product(server):
    a, b = draw((6, 40, 30), 1), draw((30, 20), 2)
    job, found = run_job(server, a, b)
    assert (job["plan"]["stack"], job["plan"]["f"]) == (None, 240)
    assert found.shape == (6, 40, 20)
    np.testing.assert_allclose(found, a @ b, rtol=0, atol=1e-12)


def test_jobs_of_stacks_that_do_not_fit_are_refused(server):
    a, b = (server.upload(np.zeros(shape)) for shape in ((4, 2, 3), (5, 3, 4)))
    refused = server.client.post("/v1/jobs", json={"a": a, "b": b})
    limit = "a stack of 4, as a is (4, 2, 3), or of one matrix"
    expect_refusal(refused, 422, "shape of b", limit=limit)


def test_a_large_result_is_written_while_it_is_computed(server):
    a, b = draw((60, 200, 210), 1), draw((60, 210, 220), 2)  # a result of 21 MB
    job, found = run_job(server, a, b)
    assert job["plan"]["stack"] == 60
    np.testing.assert_allclose(found, a @ b, rtol=0, atol=1e-10)


@pytest.mark.parametrize("order", ["C", "F"])
def test_stacks_in_files_are_read_from_there(without_arena, order):
    a, b = draw((20, 150, 140), 1), draw((20, 140, 130), 2)
    sent = [np.asarray(one, order=order) for one in (a, b)]
    _, found = run_job(without_arena, *sent, verify=True)
    np.testing.assert_allclose(found, a @ b, rtol=0, atol=1e-10)
    answer = without_arena.multiply(*sent)
    np.testing.assert_allclose(decode_npy(answer.content), a @ b, rtol=0, atol=1e-10)


def test_bytes_of_a_stack_count_against_limits(tmp_path):
    with RunningServer(tmp_path / "data", max_matrix_bytes=40_000) as server:
        assert server.multiply(np.zeros((9, 10, 10)), np.zeros((10, 10))).status_code == 200
        for arrays in (
            [np.zeros((60, 10, 10)), np.zeros((10, 10))],
            [np.zeros((9, 100, 1)), np.zeros((9, 1, 100))],
        ):
            problem = expect_refusal(server.multiply(*arrays), 413)
            assert "max_matrix_bytes" in problem["limit"]
        large = encode_npy(np.zeros((60, 10, 10)))
        assert server.client.post("/v1/matrices", content=large, headers=NPY).status_code == 413
        column, row = (server.upload(np.zeros((9, *shape))) for shape in ((100, 1), (1, 100)))
        refused = server.client.post("/v1/jobs", json={"a": column, "b": row})
        limit = "at most 40000 bytes (max_matrix_bytes)"
        expect_refusal(refused, 413, "matrix size", limit=limit)
