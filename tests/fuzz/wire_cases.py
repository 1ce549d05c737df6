"""What is sent on one connection, drawn from a seed and a number: the same pair, the same bytes."""

import random
from dataclasses import dataclass, replace

from tests.fuzz.watched import AUTHORIZED, NEVER
from tests.fuzz.wire_requests import Request, draw_request, format_request, plant_request

MAYBE = "maybe-"
"""The id of a planted request begins so where a mutation may have made it a real one."""


@dataclass(frozen=True, slots=True)
class Case:
    """One connection.

    Attributes:
        way: Where it goes: "tcp", "tls", "unix", or "lease", the socket that hands out leases.
        pieces: What is sent, one after the other.
        pauses: How long is waited behind each of them, in seconds.
        end: Behind the last byte: "half-close" shuts the sending direction, "wait" does nothing,
            and "reset" breaks off.
        requests: What is asked, if all of it is well-formed.
        reads_slowly: Whether answers are read a little at a time.
    """

    way: str
    pieces: tuple[bytes, ...]
    pauses: tuple[float, ...]
    end: str
    requests: tuple[Request, ...] | None = None
    reads_slowly: bool = False

    @property
    def content(self):
        return b"".join(self.pieces)


def draw_case(seed, number, matrices):
    """A connection's bytes: the ids of stored matrices have the same length in every run."""
    source = random.Random(f"{seed}:{number}")
    kind = source.choices(
        [_draw_valid, _draw_mutated, _draw_conflict, _draw_garbage, _draw_lease], [40, 38, 10, 8, 4]
    )[0]
    return kind(source, number, matrices)


def draw_heavy_case(seed, number, matrices, *, way):
    """Well-formed requests for much memory, some of whose callers vanish or read slowly."""
    source = random.Random(f"{seed}:{number}")
    count = source.choice([1, 1, 2])
    requests = [draw_request(source, f"r{number}.{i}", matrices, heavy=True) for i in range(count)]
    content = _format_all(source, requests, closes=True)
    reads_slowly = source.random() < 0.2
    if source.random() < 0.7:
        case = replace(_cut(source, content, "wait", requests), reads_slowly=reads_slowly)
    else:  # all was sent by some who vanish, and the answer may have begun
        content = content[: source.choice([len(content), source.randint(1, len(content))])]
        case = _cut(source, content, "reset")
        case = replace(case, pauses=(*case.pauses[:-1], source.choice([0.0, 0.001, 0.02])))
    return replace(case, way=way)


def _format_all(source, requests, *, closes):
    """Requests one behind the other, of which the last may ask for the connection's end."""
    last = requests[-1] if closes else None
    return b"".join(format_request(source, one, closes=one is last) for one in requests)


def _draw_valid(source, number, matrices):
    """Some requests one behind the other, cut anywhere."""
    count = source.choice([1, 1, 2, 3, 8])
    requests = [draw_request(source, f"r{number}.{i}", matrices) for i in range(count)]
    end = source.choices(["half-close", "wait"], [3, 7])[0]
    # Who waits asks for the end, but for a few, who wait for the server to close.
    content = _format_all(source, requests, closes=end == "wait" and source.random() < 0.95)
    return _cut(source, content, end, requests)


def _draw_mutated(source, number, matrices):
    """Such requests with some bytes changed."""
    count = source.choice([1, 2, 3])
    requests = [draw_request(source, f"r{number}.{i}", matrices) for i in range(count)]
    requests = [request for request in requests if request.method != "HEAD"]
    content = _format_all(source, requests, closes=False)
    content = content.replace(NEVER.encode(), MAYBE.encode())
    if source.random() < 0.5 or not requests:
        content += plant_request(f"{MAYBE}{number}")
    for _ in range(source.choice([1, 1, 2, 4, 8])):
        content = source.choice(_MUTATIONS)(source, content)
    return _cut(source, content, source.choices(["half-close", "wait", "reset"], [80, 10, 10])[0])


def _draw_conflict(source, number, _matrices):
    """A body whose length is told in two ways, with a request in what one of them leaves over."""
    planted = plant_request(f"{NEVER}{number}")
    inner = source.choice([b"", b"x=1", b"5\r\nabcde\r\n"]) + source.choice([b"", b"0\r\n\r\n"])
    body = inner + planted
    whole, short = len(body), len(inner)
    lengths = [
        [("Content-Length", str(short)), ("Transfer-Encoding", "chunked")],
        [("Transfer-Encoding", "chunked"), ("Content-Length", str(whole))],
        [("Content-Length", str(whole)), ("Content-Length", str(short))],
        [("Content-Length", str(short)), ("Content-Length", str(whole))],
        [("Content-Length", f"{short}, {whole}")],
        [("Content-Length", f"{short}\r\n {whole}")],
        [("Content-Length", f"+{short}")],
        [("Content-Length", f"0x{short:x}")],
        [("Content-Length", f"{short} {whole}")],
        [("Content-Length", f"-{whole}")],
        [("Content-Length", str(2**64 + short))],
        [("Content-Length ", str(short))],
        [("Content-Length", f"{short}"), ("Content_Length", str(whole)), ("TE", "chunked"),
         ("Transfer-Encoding", "identity")],
        [("Content-Length", str(short)), ("Transfer-Encoding", "xchunked")],
        [("Content-Length", str(short)), ("Transfer-Encoding", "\x0bchunked")],
        [("Content-Length", str(short)), ("Transfer-Encoding ", "chunked")],
        [("Content-Length", str(short)), ("Transfer-Encoding", "chunked, identity")],
        [("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "identity")],
        [("Transfer-Encoding", "identity")],
        [("Transfer-Encoding", "gzip")],
        [("Transfer-Encoding", "chunked;q=1"), ("Content-Length", str(short))],
    ]  # fmt: skip
    fields = [("Host", "localhost"), ("X-Request-Id", f"r{number}"), *AUTHORIZED.items()]
    fields += [("Content-Type", "application/json"), *source.choice(lengths)]
    head = "\r\n".join(f"{name}: {value}" for name, value in fields)
    content = f"POST /v1/jobs HTTP/1.1\r\n{head}\r\n\r\n".encode("latin-1") + body
    return _cut(source, content, "half-close")


def _draw_garbage(source, number, matrices):
    """What is no HTTP/1.1 at all, alone or behind a request."""
    noise = bytes(source.randrange(256) for _ in range(source.choice([1, 20, 500])))
    content = source.choice(_FOREIGN) + source.choice([b"", noise])
    request = draw_request(source, f"r{number}", matrices)
    if source.random() < 0.5 and request.method != "HEAD":
        content = format_request(source, request) + content
    return _cut(source, content, source.choices(["half-close", "wait"], [8, 2])[0])


def _draw_lease(source, _number, _matrices):
    """Packets on the socket of the leases."""
    sizes = [source.choice([1, 43, 255, 256, 257, 5000]) for _ in range(source.choice([1, 1, 3]))]
    packets = tuple(bytes(source.choices(range(256), k=size)) for size in sizes)
    end = source.choices(["half-close", "reset"], [3, 1])[0]
    return Case("lease", packets, (0.0,) * len(packets), end)


def _cut(source, content, end, requests=None):
    """Cuts what is sent into pieces, with pauses behind some of them."""
    if source.random() < 0.05 and len(content) < 2000:
        places = list(range(1, len(content)))
    else:
        count = min(source.choice([0, 0, 1, 2, 5, 20]), max(0, len(content) - 1))
        places = sorted(source.sample(range(1, len(content)), count)) if count else []
    begins, ends = [0, *places], [*places, len(content)]
    pieces = tuple(content[begin:end] for begin, end in zip(begins, ends, strict=True))
    pauses = tuple(source.choice([0.0, 0.0, 0.0, 0.001]) for _ in pieces)
    way = "unix" if source.random() < 0.3 else "tcp"
    return Case(way, pieces, pauses, end, None if requests is None else tuple(requests))


def _draw_slice(source, content):
    # Heads are where it hurts, so most places are near the front.
    most = len(content) if source.random() < 0.3 else min(len(content), 700)
    begin = source.randint(0, most)
    return slice(begin, begin + source.choice([0, 1, 1, 2, 8, 50]))


def _flip(source, content):
    place = _draw_slice(source, content).start
    return content[:place] + bytes([source.randrange(256)]) + content[place + 1 :]


def _delete(source, content):
    part = _draw_slice(source, content)
    return content[: part.start] + content[part.stop :]


def _repeat(source, content):
    part = _draw_slice(source, content)
    return content[: part.stop] + content[part] * source.choice([1, 2, 50]) + content[part.stop :]


def _insert(source, content):
    place = _draw_slice(source, content).start
    return content[:place] + source.choice(_TOKENS) + content[place:]


def _insert_line(source, content):
    """A token behind some line's end."""
    lines = content[:3000].count(b"\r\n")
    place = -1
    for _ in range(source.randint(0, lines)):
        place = content.find(b"\r\n", place + 1)
    place = place + 2 if place >= 0 else 0
    return content[:place] + source.choice(_TOKENS) + content[place:]


def _end_lines(source, content):
    """Another end of lines, for one of them or all."""
    end = source.choice([b"\n", b"\r", b"\r\r\n", b"\n\r\n", b" \r\n", b"\r\n "])
    return content.replace(b"\r\n", end, source.choice([1, 2, 4, -1]))


def _change_number(source, content):
    """Another digit where one is."""
    digits = [i for i, byte in enumerate(content[:1500]) if 48 <= byte <= 57]
    if not digits:
        return content
    place = source.choice(digits)
    return (
        content[:place] + source.choice([b"0", b"9", b"-", b"99999", b"a"]) + content[place + 1 :]
    )


def _truncate(source, content):
    return content[: source.randint(0, len(content))]


_MUTATIONS = (
    _flip, _flip, _delete, _repeat, _insert, _insert_line, _insert_line, _end_lines,
    _change_number, _truncate,
)  # fmt: skip

_TOKENS = (
    b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b"\r\n\r\n", b"\xff\xfe", b"%00", b"/../",
    b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Content-Length: 99999999999999999999\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: identity\r\n", b"0\r\n\r\n",
    b"ffffffffffffffff\r\n", b"-1\r\n", b"5;\0=\r\nabcde\r\n", b"Expect: 100-continue\r\n",
    b"Expect: 200-ok\r\n", b"Connection: close\r\n", b"Connection: keep-alive, upgrade\r\n",
    b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQ\r\n",
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAAA\r\n",
    b"Host: b.example\r\n", b"Range: bytes=0-0,5-5\r\n", b"Content-Encoding: gzip\r\n",
    b"Content-Digest: sha-256=:AAAA:\r\n", b"Idempotency-Key: k\r\n", b"If-None-Match: *\r\n",
    b"GET / HTTP/1.0\r\n\r\n", b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n",
    b"GET http://a.example/healthz/live HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /healthz/live HTTP/0.9\r\n\r\n", b"GET /\r\n", b"X-Long: " + b"x" * 70_000 + b"\r\n",
    b"X: 1\r\n" * 120, b"\r\n" * 200,
)  # fmt: skip

_FOREIGN = (
    bytes.fromhex("16030100c8010000c40303") + b"\x5a" * 190,  # TLS: ClientHello
    bytes.fromhex("1603010000"), b"\x80\x2e\x01\x03\x01",  # empty; that of SSL 2
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9), b"SSH-2.0-client\r\n", b"\x93NUMPY\x01\x00",
    b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n", b"\r\n\r\n\r\n", b"\0" * 100, b"{}", b"EHLO x\r\n",
    b"GET /healthz/live\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"",
)  # fmt: skip
