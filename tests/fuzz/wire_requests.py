"""Requests as they go over the wire: well-formed ones, whose answer is known."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from tests.fuzz.watched import AUTHORIZED, NEVER
from tests.server import decode_npy, encode_npy

NPY = "application/x-npy"
JSON = "application/json"

_OFFER = (
    ("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABk"),
)  # fmt: skip
"""As Java's client and curl offer HTTP/2."""

_OK = frozenset({200})
_FULL = frozenset({503, 507})
"""What each request that needs room may be answered with as well."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request, and what it may be answered with.

    Attributes:
        id: Its X-Request-Id, which the answer repeats.
        fields: Its header, without those of its body's length.
        is_right: Whether an answer's body is the right one, where its status is 200 or 206.
    """

    id: str
    method: str
    target: str
    statuses: frozenset[int] = _OK
    fields: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    chunked: bool = False
    is_right: Callable[[bytes], bool] = field(default=lambda _body: True, repr=False)


def draw_request(source, identity, matrices, *, heavy=False):
    """A well-formed request with what may come in between: a key, and odd fields.

    A heavy one needs memory of the arena, or files where that is full.
    """
    kinds, weights = (_HEAVY_KINDS, _HEAVY_WEIGHTS) if heavy else (_KINDS, _WEIGHTS)
    request = source.choices(kinds, weights)[0](source, identity, source.choice(matrices))
    fields = [("Host", source.choice(["localhost", "127.0.0.1", "[::1]:8000", "a.example"]))]
    fields += [("X-Request-Id", identity), *request.fields]
    if request.statuses != {401}:
        fields += AUTHORIZED.items()
    for _ in range(source.choice([0, 0, 0, 1, 3])):
        value = "".join(map(chr, source.choices(range(33, 127), k=source.randint(0, 60))))
        fields.append((f"X-Odd-{source.randint(0, 9)}", value))
    if request.body is not None and source.random() < 0.1:
        fields.append(("Expect", "100-continue"))
    if source.random() < 0.1:
        fields += _OFFER
    source.shuffle(fields)
    return replace(request, fields=tuple(fields))


def format_request(source, request, *, closes=False):
    """A request's bytes, in one of the forms that mean the same."""
    lines = [f"{request.method} {request.target} HTTP/1.1"]
    fields = list(request.fields)
    if request.body is not None and request.chunked:
        fields.insert(source.randint(0, len(fields)), ("Transfer-Encoding", "chunked"))
    elif request.body is not None:
        length = f"{len(request.body):0{source.choice([1, 1, 1, 9])}}"
        fields.insert(source.randint(0, len(fields)), ("Content-Length", length))
    if closes:
        fields.append(("Connection", source.choice(["close", "Close"])))
    for name, value in fields:
        written = source.choice([name, name.lower(), name.upper()])
        space = source.choice([" ", " ", "", "  ", "\t"])
        lines.append(f"{written}:{space}{value}{source.choice(['', '', ' '])}")
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    if request.body is None:
        return head
    return head + (_cut_chunks(source, request.body) if request.chunked else request.body)


def _cut_chunks(source, body):
    """A body in chunks of odd lengths, some with extensions, and perhaps with trailers."""
    out = bytearray()
    while body:
        size = min(len(body), source.choice([1, 2, 7, 100, 4096, 70_000]))
        extension = source.choice(["", "", "", ";a=b", ";x"])
        length = source.choice([f"{size:x}", f"{size:X}", f"{size:04x}"])
        out += f"{length}{extension}\r\n".encode() + body[:size] + b"\r\n"
        body = body[size:]
        if len(out) > 20_000 and source.random() < 0.9:
            size = len(body)  # the rest at once
            if size:
                out += f"{size:x}\r\n".encode() + body + b"\r\n"
            body = b""
    return bytes(out) + b"0\r\n" + source.choice([b"", b"X-Trailer: 1\r\n"]) + b"\r\n"


def plant_request(identity, target="/healthz/live"):
    """A request that lies where none is."""
    return f"GET {target} HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: {identity}\r\n\r\n".encode()


def _post(identity, target, statuses, body, *, media_type=NPY, chunked=False, **more):
    fields = (("Content-Type", media_type),)
    return Request(
        identity, "POST", target, frozenset(statuses), fields, body, chunked=chunked, **more
    )


def _infer(source, identity, _matrix):
    """A document for /v2, within the bounds of its structure or beyond."""
    count = source.choice([1, 100, 1000])
    names = ",".join(f'"p{i}":1' for i in range(2 * count))
    items = {"[1]": 70 * count, "1": 600 * count, "{}": count}
    texts = {"\\\\": 2 * count, "x": 1000 * count}
    body, statuses = source.choice(
        [
            (f'{{"parameters": {{{names}}}}}', {422}),
            *((f'{{"inputs": [{",".join([item] * n)}]}}', {422}) for item, n in items.items()),
            *((f'{{"id": "{text * n}"}}', {413, 422}) for text, n in texts.items()),
            ("[" * 900 * count, {400, 422}),
            (f'{{"inputs": [{_tensor("A", count)}, {_tensor("B", 1)}]}}', {200, *_FULL}),
        ]
    )
    target = "/v2/models/matmul/infer"
    return _post(identity, target, statuses, body.encode(), media_type=JSON)


def _tensor(name, rows):
    data = ",".join(["[0.5]"] * rows)
    return f'{{"name": "{name}", "datatype": "FP32", "shape": [{rows}, 1], "data": [{data}]}}'


def _get(target):
    return lambda _source, identity, _matrix: Request(identity, "GET", target)


def _read_matrix(source, identity, matrix):
    past = f"bytes={len(matrix.content)}-"
    method, suffix, fields, status, expected = source.choice(
        [
            ("GET", "", (), 200, None),
            ("GET", "/data", (), 200, matrix.content),
            ("HEAD", "/data", (), 200, b""),
            ("GET", "/data", (("Range", "bytes=5-77"),), 206, matrix.content[5:78]),
            ("GET", "/data", (("Range", past),), 416, None),
        ]
    )
    return Request(
        identity, method, f"/v1/matrices/{matrix.id}{suffix}", frozenset({status}), fields,
        is_right=lambda content: expected in (None, content),
    )  # fmt: skip


def _miss(source, identity, _matrix):
    method, target, status = source.choice(
        [
            ("GET", "/v1/matrices/none", 404),
            ("DELETE", "/v1/matrices/none", 404),
            ("GET", "/v1/jobs/none?wait_seconds=1", 404),
            ("DELETE", "/v1/jobs/none", 404),
            ("GET", "/v3", 404),
            ("PATCH", "/v1/jobs", 405),
            ("GET", "/v1/jobs?limit=0", 422),
            ("GET", "/v1/plan?m=0", 422),
            ("GET", "/v1/matrices/%00%ff", 422),
        ]
    )
    return Request(identity, method, target, frozenset({status}))


def _post_document(source, identity, matrix):
    """A JSON body, into which a request is planted where it is long enough."""
    planted = plant_request(f"{NEVER}{identity}").decode()
    escaped = planted.replace("\r", "\\r").replace("\n", "\\n")
    body, status = source.choice(
        [
            (f'{{"a": "{matrix.id}", "b": "none"}}', 404),
            (f'{{"a": "{escaped}", "b": "x"}}', 422),
            (planted, 400),
            (f'{{"a": "{matrix.id}", "b": "x", \r\n\r\n{planted}', 400),
            (" " * 600_000, 413),
        ]
    )
    chunked = source.random() < 0.5
    return _post(identity, "/v1/jobs", {status}, body.encode(), media_type=JSON, chunked=chunked)


def _multiply(usual, most, dtypes, statuses):
    """Draws matrices of up to so many rows, exact in these types; large ones are pulled."""

    def draw(source, identity, _matrix):
        side, dtype = most if source.random() < 0.3 else usual, source.choice(dtypes)
        numbers = np.random.default_rng(source.getrandbits(32))
        m, k, n = numbers.integers(1, side + 1, 3)
        a, b = (numbers.integers(-9, 10, shape).astype(dtype) for shape in ((m, k), (k, n)))
        return _post(
            identity, "/v1/matmul", statuses, encode_npy(a) + encode_npy(b),
            chunked=source.random() < 0.3,
            is_right=lambda content: np.array_equal(decode_npy(content), a @ b),
        )  # fmt: skip

    return draw


def _store(sides, places):
    def draw(source, identity, _matrix):
        side, target = source.choice(sides), f"/v1/matrices?storage={source.choice(places)}"
        body, chunked = encode_npy(np.full((side, side), 0.5)), source.random() < 0.3
        return _post(identity, target, {201, *_FULL}, body, chunked=chunked)

    return draw


def _refuse(status, targets, times):
    """Draws a body that is refused at its beginning, with planted requests in the rest of it."""

    def draw(source, identity, matrix):
        planted = plant_request(f"{NEVER}{identity}") * source.choice(times)
        target = source.choice(targets).format(matrix.id)
        return _post(identity, target, {status}, planted, chunked=source.random() < 0.3)

    return draw


_KINDS = (
    _get("/healthz/live"), _get("/v1/devices"), _get("/v1/plan?m=64&n=64&k=64"), _read_matrix,
    _miss, _post_document, _multiply(12, 130, ["int64"], _OK | _FULL),
    _store([1, 3, 20, 110], ["memory", "memory", "disk"]),
    _refuse(400, ["/v1/matrices", "/v1/matmul"], [1, 3, 2000]),
    _refuse(401, ["/v1/matrices", "/v1/matmul", "/v1/jobs", "/v1/matrices/{}"], [1, 100]), _infer,
)  # fmt: skip
_WEIGHTS = (3, 1, 1, 3, 3, 3, 4, 2, 2, 2, 0.5)

_HEAVY_KINDS = (
    _multiply(60, 512, ["float32", "float64"], _OK),
    _store([20, 90, 180, 256, 400, 512], ["disk"]),
    _read_matrix,
)
_HEAVY_WEIGHTS = (8, 1, 2)
