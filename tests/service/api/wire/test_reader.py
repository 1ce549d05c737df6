"""Bodies as a route reads them: pulled, or in the ordinary way of any ASGI server."""

import base64
import hashlib
import random
from collections.abc import Callable, Iterator

import httpx
import numpy as np
import pytest

from tests.server import encode_npy, open_http
from tests.service.api.wire.wire_server import serve_wire

MIB = 2**20
NPY = {"Content-Type": "application/x-npy"}

Post = Callable[..., httpx.Response]


def make_body(count: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(count)


def digest(content: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(content).digest()).decode()}:"


@pytest.fixture(scope="module")
def post(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Post]:
    """Posts to the application."""
    folder = tmp_path_factory.mktemp("reader")
    with (
        serve_wire(folder, "uvloop", "tcp") as server,
        open_http(f"http://127.0.0.1:{server.address}") as client,
    ):
        yield lambda path, content, **headers: client.post(
            path, content=content, headers={**NPY, **headers}
        )


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 3 * MIB])
def test_a_body_comes_back_whoever_serves(post: Post, size: int) -> None:
    body = make_body(size)
    assert post("/echo", body).content == body


def test_memory_may_be_used_again_after_an_answer_of_any_server(post: Post) -> None:
    expected = random.Random(str(3 * MIB)).randbytes(3 * MIB)
    assert post(f"/large?count={3 * MIB}", b"").content == expected


@pytest.mark.parametrize("rows", [3, 300])
@pytest.mark.parametrize("chunked", [True, False])
def test_a_body_may_hold_several_files(post: Post, rows: int, chunked: bool) -> None:
    a, b = np.random.default_rng(rows).random((2, rows, 71))
    body = encode_npy(a) + encode_npy(b)
    sent = iter([body[:100], body[100:150], body[150:]]) if chunked else body
    assert post("/headers", sent).content == a.tobytes() + b.tobytes()
    assert post("/headers", body, **{"Content-Digest": digest(body)}).status_code == 200
