"""Bodies as a route reads them: pulled, or in the ordinary way of any ASGI server."""

import base64
import hashlib
import logging
import random
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from tests.server import encode_npy, open_http
from tests.service.api.wire.wire_app import WireApp
from tests.service.api.wire.wire_server import serve_wire
from wavetrim.service.api.wire.protocol import choose_protocol

MIB = 2**20
NPY = {"Content-Type": "application/x-npy"}

Post = Callable[..., httpx.Response]


def make_body(count: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(count)


def digest(content: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(content).digest()).decode()}:"


@pytest.fixture(scope="module", params=["pulled", "plain", "foreign"])
def post(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Post]:
    """Posts to the application: on our protocol, on uvicorn's own, and without a server."""
    if request.param == "foreign":
        application = WireApp()

        def call(path: str, content: Any, **headers: str) -> httpx.Response:
            import asyncio

            async def send() -> httpx.Response:
                transport = httpx.ASGITransport(application)
                async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
                    sent = content if isinstance(content, bytes) else as_chunks(content)
                    return await client.post(path, content=sent, headers={**NPY, **headers})

            return asyncio.run(send())

        yield call
        return
    options = ["--plain"] if request.param == "plain" else []
    folder = tmp_path_factory.mktemp("reader")
    with serve_wire(folder, "uvloop", "tcp", *options) as server:
        url = f"http://127.0.0.1:{server.address}"
        with open_http(url) as client:

            def call_server(path: str, content: Any, **headers: str) -> httpx.Response:
                return client.post(path, content=content, headers={**NPY, **headers})

            yield call_server


async def as_chunks(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 3 * MIB])
def test_a_body_comes_back_whoever_serves(post: Post, size: int) -> None:
    body = make_body(size)
    assert post("/echo", body).content == body


def test_memory_may_be_used_again_after_an_answer_of_any_server(post: Post) -> None:
    expected = random.Random(str(3 * MIB)).randbytes(3 * MIB)
    assert post(f"/large?count={3 * MIB}", b"").content == expected


@pytest.mark.parametrize("size", [0, 5, 65536])
def test_a_short_body_is_read_at_once(post: Post, size: int) -> None:
    body = make_body(size)
    assert post("/small", body).content == body
    assert post("/small", body, **{"Content-Digest": digest(body)}).content == body
    assert post("/small", iter([body[:3], body[3:]])).content == body


@pytest.mark.parametrize("chunked", [True, False])
def test_a_body_that_is_not_short_is_refused_as_one(post: Post, chunked: bool) -> None:
    body = make_body(70_000)
    refused = post("/small", iter([body]) if chunked else body)
    assert refused.status_code == 413
    assert "65536" in refused.json()["limit"]


@pytest.mark.parametrize("size", [100, 300_000, 20 * MIB])
def test_a_digest_is_compared_with_what_has_come(post: Post, size: int) -> None:
    body = make_body(size)
    assert post("/echo", body, **{"Content-Digest": digest(body)}).content == body
    refused = post("/echo", body, **{"Content-Digest": digest(body[1:])})
    assert (refused.status_code, refused.json()["field"]) == (400, "Content-Digest")
    assert digest(body) in refused.json()["limit"]


@pytest.mark.parametrize("rows", [3, 300])
@pytest.mark.parametrize("chunked", [True, False])
def test_a_body_may_hold_several_files(post: Post, rows: int, chunked: bool) -> None:
    a, b = np.random.default_rng(rows).random((2, rows, 71))
    body = encode_npy(a) + encode_npy(b)
    sent = iter([body[:100], body[100:150], body[150:]]) if chunked else body
    assert post("/headers", sent).content == a.tobytes() + b.tobytes()
    assert post("/headers", body, **{"Content-Digest": digest(body)}).status_code == 200


@pytest.mark.parametrize("rows", [3, 300])
@pytest.mark.parametrize("chunked", [True, False])
def test_what_is_missing_is_called_by_its_name(post: Post, rows: int, chunked: bool) -> None:
    a = encode_npy(np.zeros((rows, 71)))

    def refuse(body: bytes) -> dict[str, Any]:
        refused = post("/headers", iter([body]) if chunked else body)
        assert refused.status_code == 400
        problem: dict[str, Any] = refused.json()
        assert problem["field"] == "body"
        return problem

    assert refuse(a)["limit"] == "longer: no B"
    assert refuse(a + a[:50])["limit"] == "longer: it ends inside the .npy header of the B"
    assert str(2 * len(a)) in refuse(a + a[:-7])["limit"]
    assert str(len(a) + 1) in refuse(a[:-7])["limit"]
    assert "more than" in refuse(a + a + b"!")["value"]
    assert refuse(b"")["limit"] == "longer: no A"


def test_bodies_of_another_kind_or_length_are_refused_before_they_are_read(post: Post) -> None:
    body = make_body(MIB)
    assert post("/echo", body, **{"Content-Type": "text/plain"}).status_code == 415
    assert post("/echo", body, **{"Content-Encoding": "br"}).status_code == 415
    assert post("/echo", body, **{"Content-Digest": "sha-256=1"}).status_code == 400
    refused = post("/echo", make_body(81 * MIB))
    assert (refused.status_code, refused.json()["field"]) == (413, "Content-Length")


def test_our_protocol_pulls_and_the_others_do_not(tmp_path: Path) -> None:
    for options, pulled in (([], "True"), (["--plain"], "False")):
        folder = tmp_path / pulled
        folder.mkdir()
        with serve_wire(folder, "uvloop", "tcp", *options) as server:
            with open_http(f"http://127.0.0.1:{server.address}") as client:
                answer = client.post("/echo", content=b"x", headers=NPY)
            assert answer.headers["wavetrim-pulled"] == pulled


def test_this_uvicorn_has_the_shape_that_is_built_upon(caplog: pytest.LogCaptureFixture) -> None:
    chosen = choose_protocol()
    assert chosen is not None
    assert issubclass(chosen, HttpToolsProtocol)
    assert caplog.records == []


@pytest.mark.parametrize(
    ("kind", "name", "replacement"),
    [
        (HttpToolsProtocol, "on_response_complete", None),
        (HttpToolsProtocol, "on_body", lambda self, body, more: None),
        (HttpToolsProtocol, "__init__", lambda self, config, server_state, app_state: None),
        (RequestResponseCycle, "send", lambda self, message: self.transport.writelines([])),
        (FlowControl, "drain", None),
    ],
)
def test_another_shape_is_left_alone_with_one_warning(
    kind: type, name: str, replacement: Any, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    if replacement is None:
        monkeypatch.delattr(kind, name)
    else:
        monkeypatch.setattr(kind, name, replacement)
    with caplog.at_level(logging.WARNING):
        assert choose_protocol() is None
    assert len(caplog.records) == 1
    assert "ordinary way" in caplog.text
