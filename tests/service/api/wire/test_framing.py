"""Where a request ends: what is no request is refused, and never costs another one its answer."""

import socket

import pytest

from tests.fuzz.answers import split_answers
from tests.service.api.wire.wire_server import make_head, read_answer, serve_wire

CHUNKED = make_head("/plain", None, "Transfer-Encoding: chunked")
GARBAGE = b"\x16\x03\x01 no request\r\n\r\n"


@pytest.fixture(scope="module", params=("tcp", "tls"))
def server(request, tmp_path_factory):
    with serve_wire(tmp_path_factory.mktemp("framing"), request.param) as running:
        yield running


def ask(server, content, count, *, ends=False):
    """Sends bytes, and perhaps the end; receives `count` answers, then the connection's end."""
    received, answers = b"", []
    with server.connect() as connection:
        connection.sendall(content)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        # Under TLS a connection cannot end in one direction: it is not waited for.
        while server.way != "tls" or len(answers) < count:
            chunk = connection.recv(2**16)
            if not chunk:
                break
            received += chunk
            answers, rest = split_answers(received, lambda _request: False)
    assert (len(answers), rest) == (count, b"")
    return answers


def test_a_client_that_has_said_all_gets_each_of_its_answers(server):
    requests = make_head("/slow?seconds=0.1", 0) + (make_head("/plain", 1) + b"x") * 4
    answers = ask(server, requests, 5, ends=server.way != "tls")
    assert [answer.body for answer in answers] == [b"slow", *[b"x"] * 4]


@pytest.mark.parametrize("before", [1, 3])
def test_requests_before_a_malformed_one_are_answered(server, before):
    requests = make_head("/slow?seconds=0.2", 0) * before
    answers = ask(server, requests + GARBAGE, before)
    assert [(answer.status, answer.body) for answer in answers] == [(200, b"slow")] * before


def test_a_malformed_request_is_refused_by_a_problem_document(server):
    (answer,) = ask(server, GARBAGE, 1)
    assert answer.status == 400
    assert b'"type": "urn:wavetrim:problem:request-malformed"' in answer.body


def test_a_malformed_chunk_ends_the_request_with_a_refusal(server):
    for content in (b"1\r\nx\r\nno length\r\n", b"1\r\nxx\r\n"):
        (answer,) = ask(server, CHUNKED + content, 1)
        assert (answer.status, b"request-malformed" in answer.body) == (400, True)


def test_requests_before_a_malformed_chunk_are_answered(server):
    requests = make_head("/slow?seconds=0.2", 0) + make_head("/plain", 1) + b"x"
    answers = ask(server, requests + CHUNKED + b"no length\r\n", 3)
    assert [answer.status for answer in answers] == [200, 200, 400]
    assert [answer.body for answer in answers[:2]] == [b"slow", b"x"]


@pytest.mark.parametrize("version", ["", " HTTP/0.9", " HTTP/2.0"])
def test_other_versions_of_http_are_refused(server, version):
    head = make_head("/plain", 0).replace(b" HTTP/1.1", version.encode())
    (answer,) = ask(server, head, 1)
    assert (answer.status, b'"field": "HTTP version"' in answer.body) == (400, True)


@pytest.mark.parametrize(
    "coding", ["identity, chunked", "gzip, chunked", "chunked, chunked", "identity"]
)
def test_other_transfer_codings_than_chunks_are_refused(server, coding):
    for lines in ([coding], coding.split(", ")):
        head = make_head("/plain", None, *(f"Transfer-Encoding: {line}" for line in lines))
        (answer,) = ask(server, head + b"1\r\nx\r\n0\r\n\r\n", 1)
        assert answer.status == 400


def test_a_request_sent_together_with_an_upgrade_is_never_read_from_its_middle(server):
    upgrade = make_head("/large?count=10", None, "Connection: Upgrade", "Upgrade: h2c")
    following = make_head("/plain", 0)
    with server.connect() as connection:
        connection.sendall(upgrade + following[:20])
        assert read_answer(connection)[0] == 200
        connection.sendall(following[20:])
        assert read_answer(connection) == (200, b"")


def test_white_space_around_a_value_is_no_part_of_it(server):
    length, content_type = b"Content-Length: 1 \t", b"Content-Encoding:  identity "
    head = make_head("/small", 1).replace(b"Content-Length: 1", length + b"\r\n" + content_type)
    with server.connect() as connection:
        connection.sendall(head + b"x")
        assert read_answer(connection) == (200, b"x")
