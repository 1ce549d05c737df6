"""Matrices are stored and fetched: arrays of any strides, and files."""

import asyncio
import threading

import numpy as np
import pytest

from tests.client.scripted_server import answer, serve_script
from tests.environment import ROOT
from tests.matrices import FLOATS, make_matrix
from tests.processes import run_python
from tests.server import encode_npy
from wavetrim.client import AsyncClient, ClientError, NotFound, ServiceRefused


@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "uint64"])
def test_an_array_comes_back_as_it_was(client, dtype):
    array = make_matrix(131, 17, dtype, 0)
    matrix = client.put(array)
    assert (matrix.shape, matrix.dtype) == ((131, 17), dtype)
    assert matrix.size_bytes > array.nbytes
    np.testing.assert_array_equal(client.get(matrix), array, strict=True)
    np.testing.assert_array_equal(client.get(matrix.id), array, strict=True)


@pytest.mark.parametrize(
    "view",
    [
        lambda array: array[::2, 1::3],
        lambda array: array.T,
        lambda array: array[::-1],
        np.asfortranarray,
        lambda array: array.astype(">f4"),
        lambda array: array[:1],
        lambda array: array[:, :1],
        lambda array: np.broadcast_to(array[:1], (500, array.shape[1])),
        lambda array: array.tolist(),
    ],
    ids=[
        *("strided", "transposed", "reversed", "columns first", "big-endian", "row", "column"),
        *("broadcast", "lists"),
    ],
)
def test_arrays_of_any_strides_are_stored(client, view):
    array = view(make_matrix(600, 700, "float32", 1))
    np.testing.assert_array_equal(client.get(client.put(array)), np.asarray(array))


def test_a_matrix_is_received_into_out(client):
    array = make_matrix(50, 60, "float64", 2)
    matrix = client.put(array)
    for out in (np.zeros((50, 60)), np.zeros((100, 120))[::2, ::2], np.zeros((60, 50)).T):
        assert client.get(matrix, out=out) is out
        np.testing.assert_array_equal(out, array)


def test_a_file_is_stored_as_it_is(client, tmp_path):
    source = tmp_path / "A.npy"
    np.save(source, make_matrix(1200, 700, "float32", 2))
    seen: list[tuple[int, int]] = []
    matrix = client.put(
        source, digest=True, on_progress=lambda done, total: seen.append((done, total))
    )
    size = source.stat().st_size
    assert seen == sorted(seen)
    assert seen[-1] == (size, size)
    assert len(seen) > 3
    assert client.matrix(matrix.id) == matrix
    seen.clear()
    watch = lambda done, total: seen.append((done, total))  # noqa: E731
    stored = matrix.size_bytes  # a large matrix's header is padded
    assert client.download(matrix, tmp_path / "again.npy", on_progress=watch) == stored
    assert seen == sorted(seen)
    assert seen[-1] == (stored, stored)
    np.testing.assert_array_equal(np.load(tmp_path / "again.npy"), np.load(source))


def test_the_digest_of_an_array_is_that_of_its_file(client):
    array = make_matrix(300, 200, "int16", 3)[:, ::-1]
    np.testing.assert_array_equal(client.get(client.put(array, digest=True)), array)


def test_a_file_that_is_no_matrix_is_refused(client, tmp_path):
    (tmp_path / "text.npy").write_text("not a matrix")
    with pytest.raises(ServiceRefused) as refused:
        client.put(tmp_path / "text.npy")
    assert refused.value.status == 400
    assert refused.value.field == "format"
    with pytest.raises(FileNotFoundError):
        client.put(tmp_path / "missing.npy")


def test_a_deleted_matrix_is_gone(client):
    matrix = client.put(make_matrix(3, 4, "float32", 8))
    client.delete(matrix)
    for call in (client.matrix, client.get, client.delete):
        with pytest.raises(NotFound, match=matrix.id) as missing:
            call(matrix.id)
        assert isinstance(missing.value, ClientError)
        assert missing.value.status == 404


def test_all_matrices_are_listed_newest_first(client):
    array = make_matrix(1, 4, "int8", 0)
    stored = [client.put(array).id for _ in range(120)]  # more than a page
    listed = list(client.matrices())
    assert [matrix.id for matrix in listed[:120]] == stored[::-1]
    assert (listed[0].shape, listed[0].dtype) == ((1, 4), "int8")
    assert len({matrix.id for matrix in listed}) == len(listed)


def test_the_event_loops_functions_are_called_in_its_thread(shared_server, tmp_path):
    np.save(tmp_path / "A.npy", make_matrix(1000, 700, "float64", 3))
    told: list[tuple[str, int]] = []

    def note(way):
        return lambda *_: told.append((way, threading.get_ident()))

    async def exchange():
        async with AsyncClient(shared_server.url) as client:
            matrix = await client.put(tmp_path / "A.npy", on_progress=note("up"))
            await client.download(matrix, tmp_path / "B.npy", on_progress=note("down"))
            job = await client.submit(matrix, np.ones((700, 1)), on_upload=note("operand"))
            await job.wait(progress=note("job"))

    asyncio.run(exchange())
    assert {way for way, _ in told} == {"up", "down", "operand", "job"}
    assert {thread for _, thread in told} == {threading.get_ident()}


def test_without_ml_dtypes_bfloat16_stays_raw_bytes():
    """The client's own package needs NumPy alone."""
    program = (
        "import sys; sys.modules['ml_dtypes'] = None\n"
        "from wavetrim_client import Client\n"
        "print(Client(sys.argv[1]).get('x').dtype)\n"
    )
    with serve_script([answer(encode_npy(np.zeros((3, 4), "V2")))]) as url:
        ran = run_python(program, url, PYTHONPATH=str(ROOT / "clients" / "python"))
    assert ran.stdout.strip() == "|V2"
