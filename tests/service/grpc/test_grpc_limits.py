"""What bounds calls over gRPC, and what their refusals and the log tell of it."""

import itertools
import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from tests.matrices import Array
from tests.processes import wait_until
from tests.server import RunningServer, Start, find_free_port
from tests.service.tenants.tenants import OWN_KEY, manage_keys, open_caller
from wavetrim.service.grpc.messages import SERVICE

PLACES = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    settings = {
        "grpc_port": find_free_port(),
        "api_key": OWN_KEY,
        "max_bodies": PLACES,
        "log_format": "json",
    }
    with RunningServer(tmp_path_factory.mktemp("limits") / "data", **settings) as running:
        yield running


@pytest.fixture
def channel(server: RunningServer) -> Iterator[grpc.Channel]:
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(f"127.0.0.1:{server.settings['grpc_port']}", options) as opened:
        yield opened


def make_request(a: Array, b: Array, model: str = "matmul") -> bytes:
    request = service_pb2.ModelInferRequest(model_name=model)
    for name, matrix in (("A", a), ("B", b)):
        request.inputs.add(name=name, datatype="FP64", shape=matrix.shape)
        request.raw_input_contents.append(matrix.tobytes())
    return bytes(request.SerializeToString())


SMALL = make_request(np.ones((2, 2)), np.ones((2, 2)))
LARGER = make_request(np.ones((400, 400)), np.ones((400, 400)))
"""The engine computes it, not the service."""


def give(key: str, **more: str) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {key}"), *more.items()]


def refuse(channel: grpc.Channel, content: bytes, key: str = OWN_KEY) -> Any:
    with pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(f"/{SERVICE}/ModelInfer")(content, metadata=give(key), timeout=60)
    return refused.value


def test_silent_calls_of_one_caller_leave_places_to_others(
    server: RunningServer, channel: grpc.Channel
) -> None:
    ada, eve = (manage_keys(server, "add", name) for name in ("ada", "eve"))
    for key in (ada, eve):
        open_caller(server, key).close()
    infer, silent = channel.stream_unary(f"/{SERVICE}/ModelInfer"), threading.Event()
    calls = [infer.future(iter(silent.wait, True), metadata=give(eve)) for _ in range(PLACES)]
    try:
        for key in (ada, OWN_KEY):
            infer(iter([SMALL]), metadata=give(key), timeout=5)
        wait_until(lambda: sum(call.done() for call in calls) == PLACES - 1, 30)
        for call in (call for call in calls if call.done()):
            assert call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "it must be at most 1 (a caller's share of max_bodies)" in call.details()
    finally:
        silent.set()
        for call in calls:
            call.cancel()
    wait_until(lambda: bool(infer(iter([SMALL]), metadata=give(eve), timeout=60)))


def test_as_many_messages_of_streams_are_held_as_there_are_places(
    server: RunningServer, channel: grpc.Channel
) -> None:
    stream = channel.stream_stream(
        f"/{SERVICE}/ModelStreamInfer",
        response_deserializer=service_pb2.ModelStreamInferResponse.FromString,
    )
    idle = threading.Event()
    waiting = [
        stream(itertools.chain([SMALL], iter(idle.wait, True)), metadata=give(OWN_KEY))
        for _ in range(2 * PLACES)  # they hold no place
    ]
    for call in waiting:
        assert not next(call).error_message
    os.kill(engine := server.find_engine(), signal.SIGSTOP)
    try:
        calls = [stream(iter([LARGER]), metadata=give(OWN_KEY)) for _ in range(PLACES + 1)]
        answers: list[str] = []
        readers = [
            threading.Thread(target=lambda call=call: answers.append(next(call).error_message))
            for call in calls
        ]
        for reader in readers:
            reader.start()
        wait_until(lambda: bool(answers), 30)
        assert f"it must be at most {PLACES}" in answers[0]
    finally:
        os.kill(engine, signal.SIGCONT)
        idle.set()
    for reader in readers:
        reader.join()
    assert answers[1:] == [""] * PLACES


def test_what_a_quota_can_never_hold_is_refused_for_good(
    server: RunningServer, channel: grpc.Channel
) -> None:
    """The message, the operands and the result: 6.4 MB, though without the message 3.84 MB."""
    key = manage_keys(server, "add", "bob", "--max-bytes-in-flight", "4MiB")
    with closing(open_caller(server, key)):
        refused = refuse(channel, LARGER, key)
    assert refused.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "bytes of the request" in refused.details()
    assert "--max-bytes-in-flight" in refused.details()


@pytest.mark.parametrize("character", ["x", "%", "é", "\U0001f600"])
def test_a_refusal_fits_into_its_header(channel: grpc.Channel, character: str) -> None:
    refused = refuse(channel, make_request(np.ones((2, 2)), np.ones((2, 2)), character * 17_000))
    assert refused.code() is grpc.StatusCode.NOT_FOUND
    assert refused.details().startswith(f"model is '{character}")
    assert refused.details().endswith("…")
    assert 1000 < len(quote(refused.details(), safe=" !\"#$&'()*+,/:;<=>?@[\\]^`{|}")) <= 1024


def test_answers_and_refusals_have_the_id_of_their_request(channel: grpc.Channel) -> None:
    metadata = give(OWN_KEY, **{"x-request-id": "seven"})
    infer = channel.unary_unary(f"/{SERVICE}/ModelInfer")
    _, call = infer.with_call(SMALL, metadata=metadata, timeout=60)
    assert ("x-request-id", "seven") in call.trailing_metadata()
    refused = refuse(channel, SMALL, "no key")
    assert len(dict(refused.trailing_metadata())["x-request-id"]) == 32
    stream = channel.stream_stream(f"/{SERVICE}/ModelStreamInfer")(iter([]), metadata=metadata)
    assert list(stream) == []
    assert ("x-request-id", "seven") in stream.trailing_metadata()


def test_every_line_of_the_log_is_in_its_format_and_names_the_caller(
    server: RunningServer, channel: grpc.Channel
) -> None:
    assert refuse(channel, b"x" * (65 * 2**20)).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    server.wait_logged("GRPC ModelInfer 400")
    silent = threading.Event()
    infer = channel.stream_unary(f"/{SERVICE}/ModelInfer")
    call = infer.future(iter(silent.wait, True), metadata=give(OWN_KEY))
    os.kill(server.find_engine(), signal.SIGKILL)  # gRPC's core tells of forks
    server.wait_logged("the engine starts again")
    server.wait_ready()
    silent.set(), call.cancel()
    lines = [json.loads(line) for line in server.read_log().splitlines()]
    calls = [line for line in lines if line.get("method") == "GRPC"]
    assert calls
    for line in calls:
        assert line["client"].startswith("ipv4:127.0.0.1:")


def test_a_share_is_counted_only_while_a_caller_has_calls(start_server: Start) -> None:
    """More callers than places, one after the other: none of them leaves a place taken."""
    server = start_server(grpc_port=find_free_port(), max_bodies=1)
    keys = [manage_keys(server, "add", f"caller-{n}") for n in range(3)]
    open_caller(server, keys[-1]).close()
    with grpc.insecure_channel(f"127.0.0.1:{server.settings['grpc_port']}") as channel:
        for key in keys * 2:
            channel.unary_unary(f"/{SERVICE}/ModelInfer")(SMALL, metadata=give(key), timeout=30)
