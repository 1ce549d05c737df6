"""What calls over gRPC leave in memory, once they have ended or wait: not their messages."""

import contextlib
import queue
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from tests.processes import wait_until
from tests.server import RunningServer, Start, find_free_port
from tests.service.tenants.tenants import OWN_KEY, manage_keys, open_caller
from wavetrim.service.grpc.messages import SERVICE

MIB = 2**20
MESSAGE_MIB = 8
FIRST_CALLS = 10
"""Calls after which the allocator has what it keeps."""

CALLS = 40
KEPT_MIB = CALLS * MESSAGE_MIB // 5
"""What a service may have more after `CALLS`, as the allocator goes on to take and give back."""


@pytest.fixture
def server(start_server: Start) -> RunningServer:
    server = start_server(grpc_port=find_free_port(), api_key=OWN_KEY)
    server.wait_ready()
    return server


@pytest.fixture
def channel(server: RunningServer) -> Iterator[grpc.Channel]:
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    address = f"127.0.0.1:{server.settings['grpc_port']}"
    with grpc.insecure_channel(address, options=options) as opened:
        yield opened


def make_content(b_rows: int = 8) -> bytes:
    """A request of `MESSAGE_MIB` for a small product, which is refused unless B has 8 rows."""
    a = np.ones((MESSAGE_MIB * MIB // 64, 8))
    request = service_pb2.ModelInferRequest(model_name="matmul")
    for name, matrix in (("A", a), ("B", np.ones((b_rows, 1)))):
        request.inputs.add(name=name, datatype="FP64", shape=matrix.shape)
        request.raw_input_contents.append(matrix.tobytes())
    return bytes(request.SerializeToString())


def give_key(key: str) -> tuple[tuple[str, str]]:
    return (("authorization", f"Bearer {key}"),)


def read_anonymous_mib(server: RunningServer) -> int:
    """The process's own memory, without what it shares."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    assert found
    return int(found[1]) // 1024


def assert_kept(server: RunningServer, work: Callable[[], Any]) -> None:
    """Make sure that calls leave no messages."""
    for _ in range(FIRST_CALLS):
        work()
    before = read_anonymous_mib(server)
    for _ in range(CALLS):
        work()
    # Calls that were left may still be under way; what is kept, is kept by an idle service, too.
    wait_until(lambda: read_anonymous_mib(server) - before < KEPT_MIB, 20)


def test_refused_calls_do_not_keep_their_messages(
    server: RunningServer, channel: grpc.Channel
) -> None:
    key = manage_keys(server, "add", "eve", "--max-bytes-in-flight", "1MiB")
    open_caller(server, key).close()
    infer = channel.unary_unary(f"/{SERVICE}/ModelInfer")
    refusals = [
        (key, make_content(), "bytes of the request is"),
        (OWN_KEY, make_content(b_rows=9), "shape of b"),
        (OWN_KEY, make_content()[:-1], "message is"),
    ]

    def refuse() -> None:
        for sent, content, words in refusals:
            with pytest.raises(grpc.RpcError) as refused:
                infer(content, metadata=give_key(sent), timeout=60)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert words in refused.value.details()

    assert_kept(server, refuse)


def test_calls_that_are_left_do_not_keep_their_messages(
    server: RunningServer, channel: grpc.Channel
) -> None:
    infer, content = channel.unary_unary(f"/{SERVICE}/ModelInfer"), make_content()
    calls = iter(range(10**6))

    def leave() -> None:
        """Leave at another moment each time: while it is received, computed or answered."""
        seconds = 0.002 + next(calls) % 10 * 0.004
        with contextlib.suppress(grpc.RpcError):
            infer(content, metadata=give_key(OWN_KEY), timeout=seconds)

    assert_kept(server, leave)


def test_streams_that_wait_do_not_keep_their_messages(
    server: RunningServer, channel: grpc.Channel
) -> None:
    content = make_content()
    open_streams: list[queue.Queue[bytes | None]] = []

    def stream() -> None:
        requests: queue.Queue[bytes | None] = queue.Queue()
        open_streams.append(requests)
        requests.put(content)
        answers = channel.stream_stream(
            f"/{SERVICE}/ModelStreamInfer",
            response_deserializer=service_pb2.ModelStreamInferResponse.FromString,
        )(iter(requests.get, None), metadata=give_key(OWN_KEY))
        assert not next(answers).error_message

    try:
        assert_kept(server, stream)
    finally:
        for requests in open_streams:
            requests.put(None)
