"""The Open Inference Protocol over gRPC, by the public clients, unmodified."""

import asyncio
import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc.aio
from tritonclient.grpc import (
    InferenceServerClient,
    InferInput,
    InferRequestedOutput,
    model_config_pb2,
    service_pb2,
)
from tritonclient.utils import InferenceServerException, shared_memory

from tests.certificates import make_certificate
from tests.environment import ROOT
from tests.matrices import Array, assert_product, make_matrix
from tests.processes import wait_until
from tests.server import RunningServer, Start, find_free_port, open_http
from tests.service.tenants.issuer import AUDIENCE, ISSUER, Issuer
from tests.service.tenants.tenants import OWN_KEY, manage_keys, open_caller
from wavetrim.service.api.v2.datatypes import DATATYPES, NAMES
from wavetrim.service.app import create_app
from wavetrim.service.errors import SettingRefused
from wavetrim.service.grpc.messages import SERVICE
from wavetrim.service.settings import Settings

PREFIX = f"/wavetrim-test-{os.getpid()}-g"
MESSAGE_BYTES = 2**20


def find_address(server: RunningServer) -> str:
    return f"127.0.0.1:{server.settings['grpc_port']}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    settings = {
        "grpc_port": find_free_port(),
        "grpc_max_message_bytes": MESSAGE_BYTES,
        "v2_shared_memory": PREFIX,
    }
    with RunningServer(tmp_path_factory.mktemp("grpc") / "data", **settings) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[InferenceServerClient]:
    with InferenceServerClient(find_address(server)) as opened:
        yield opened


def make_inputs(*tensors: Array) -> list[InferInput]:
    return [
        InferInput(name, list(tensor.shape), NAMES[tensor.dtype.name]).set_data_from_numpy(tensor)
        for name, tensor in zip("ABC", tensors, strict=False)
    ]


def draw(dtype: str = "float32") -> tuple[Array, Array, Array]:
    a, b, c = (make_matrix(*s, dtype, i) for i, s in enumerate([(5, 7), (7, 3), (5, 3)]))
    return a, b, c


def test_messages_are_those_of_the_public_client() -> None:
    """Names, numbers and kinds of all fields; in a process of its own, as names are the same."""
    program = (
        "from wavetrim.service.grpc.messages import read_pool\n"
        "file = read_pool().FindFileByName('protocol.proto')\n"
        "def tell(prefix, messages):\n"
        "    for one in messages.values():\n"
        "        for f in one.fields:\n"
        "            print(prefix + one.name, f.name, f.number, f.type, f.is_repeated)\n"
        "        tell(prefix + one.name + '.', one.nested_types_by_name)\n"
        "tell('', file.message_types_by_name)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    lines = told.stdout.splitlines()
    assert len(lines) > 80
    public = {
        **service_pb2.DESCRIPTOR.message_types_by_name,
        **model_config_pb2.DESCRIPTOR.message_types_by_name,
    }
    for line in lines:
        message, name, *found = line.split()
        first, *nested = message.split(".")
        theirs = public[first]
        for one in nested:
            theirs = theirs.nested_types_by_name[one]
        field = theirs.fields_by_name[name]
        assert found == [str(x) for x in (field.number, field.type, field.is_repeated)], line


def test_the_descriptors_are_made_from_the_proto_file(tmp_path: Any) -> None:
    folder, made = ROOT / "service/grpc", tmp_path / "protocol.binpb"
    command = [f"--proto_path={folder}", f"--descriptor_set_out={made}", "protocol.proto"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *command], check=True)
    assert made.read_bytes() == (folder / "protocol.binpb").read_bytes()


def test_server_and_model_are_described(client: InferenceServerClient) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("matmul")
    assert client.is_model_ready("matmul", "1")
    assert not client.is_model_ready("convolve")
    assert "system_shared_memory" in client.get_server_metadata().extensions
    assert [one.name for one in client.get_model_metadata("matmul", "1").inputs] == ["A", "B", "C"]
    config = client.get_model_config("matmul", "1").config
    assert [(one.name, one.optional) for one in config.input][-1] == ("C", True)
    assert config.input[0].data_type == model_config_pb2.TYPE_FP32
    assert client.get_model_repository_index().models[0].state == "READY"


TYPED = {
    "float32": "fp32",
    "float64": "fp64",
    "int64": "int64",
    "uint64": "uint64",
    **dict.fromkeys(("int8", "int16", "int32"), "int"),
    **dict.fromkeys(("uint8", "uint16", "uint32"), "uint"),
}
"""Where elements are that come one by one, by element types; the protocol has no place for FP16."""


@pytest.mark.parametrize(
    ("dtype", "raw"), [*((x, True) for x in DATATYPES.values()), *((x, False) for x in TYPED)]
)
def test_the_product_is_numpys_for_every_element_type(
    server: RunningServer, client: InferenceServerClient, dtype: str, raw: bool
) -> None:
    a, b, c = draw(dtype)
    inputs = make_inputs(a, b, c)
    asked = {"alpha": 2.0 if a.dtype.kind == "f" else 2, "beta": 3}
    if raw:
        answer = client.infer("matmul", inputs, parameters=asked, request_id="seven")
        assert answer.get_response().id == "seven"
        assert_product(answer.as_numpy("C"), a, b, c, alpha=2, beta=3)
        return
    request = make_typed(a, b, c)
    request.parameters["alpha"].int64_param = 2
    request.parameters["beta"].string_param = "3"
    found = call_typed(server, request).reshape(5, 3)
    assert_product(found, a, b, c, alpha=2, beta=3)


def test_whole_numbers_of_64_bits_come_one_by_one(server: RunningServer) -> None:
    a, one = np.array([[2**64 - 1], [1]], "uint64"), np.ones((1, 1), "uint64")
    assert call_typed(server, make_typed(a, one)).tolist() == [2**64 - 1, 1]


def make_typed(*tensors: Array) -> service_pb2.ModelInferRequest:
    """A request whose elements come one by one."""
    request = service_pb2.ModelInferRequest(model_name="matmul")
    for name, tensor in zip("ABC", tensors, strict=False):
        dtype = tensor.dtype.name
        described = request.inputs.add(name=name, datatype=NAMES[dtype], shape=tensor.shape)
        getattr(described.contents, f"{TYPED[dtype]}_contents").extend(tensor.reshape(-1).tolist())
    return request


def call_typed(server: RunningServer, request: service_pb2.ModelInferRequest) -> Array:
    """The elements of the product."""
    with grpc.insecure_channel(find_address(server)) as channel:
        call = channel.unary_unary(
            f"/{SERVICE}/ModelInfer",
            request_serializer=service_pb2.ModelInferRequest.SerializeToString,
            response_deserializer=service_pb2.ModelInferResponse.FromString,
        )
        response = call(request)
    (content,) = response.raw_output_contents
    return np.frombuffer(content, DATATYPES[response.outputs[0].datatype])


def test_stacks_larger_messages_and_calls_under_way(client: InferenceServerClient) -> None:
    a, b = np.random.default_rng(1).random((2, 3, 90, 80)).transpose(0, 1, 2, 3)
    b = np.ascontiguousarray(b.reshape(3, 80, 90))
    found = client.infer("matmul", make_inputs(a, b)).as_numpy("C")
    np.testing.assert_allclose(found, a @ b, rtol=0, atol=1e-11)
    answers: queue.Queue[Any] = queue.Queue()
    for _ in range(8):
        client.async_infer(
            "matmul", make_inputs(a, b), lambda result, error: answers.put((result, error))
        )
    for _ in range(8):
        answer, error = answers.get(timeout=60)
        assert error is None
        np.testing.assert_array_equal(answer.as_numpy("C"), found)


def test_calls_are_logged_and_counted_with_the_ids_that_come(
    server: RunningServer, client: InferenceServerClient
) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    ids = {"x-request-id": "over-grpc", "traceparent": f"00-{trace}-b7ad6b7169203331-01"}
    client.infer("matmul", make_inputs(np.ones((2, 3)), np.ones((3, 2))), headers=ids)
    wait_until(lambda: f"[over-grpc {trace}] GRPC ModelInfer 200" in server.read_log())
    label = 'method="GRPC",route="/inference.GRPCInferenceService/ModelInfer"'
    assert server.read_metric(f"wavetrim_http_request_seconds_count{{{label}}}") > 0


def test_a_stream_answers_request_after_request_and_refusals_do_not_end_it(
    client: InferenceServerClient,
) -> None:
    answers: queue.Queue[Any] = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    a, b, _ = draw()
    for identity in ("0", "1"):
        inputs = make_inputs(a, b)
        client.async_stream_infer("matmul", inputs, request_id=identity,
                                  enable_empty_final_response=True)  # fmt: skip
        answer, error = answers.get(timeout=60)
        assert error is None
        assert answer.get_response().id == identity
        assert answer.get_response().parameters["triton_final_response"].bool_param
        assert_product(answer.as_numpy("C"), a, b)
        client.async_stream_infer("matmul", make_inputs(a, a))
        _, error = answers.get(timeout=60)
        assert "shape of b" in str(error)
    client.stop_stream()


def test_the_asynchronous_client_computes_and_streams(server: RunningServer) -> None:
    a, b, _ = draw()

    async def ask() -> list[Any]:
        client = tritonclient.grpc.aio.InferenceServerClient(find_address(server))
        async with contextlib.aclosing(client) if hasattr(client, "aclose") else client:
            assert await client.is_server_ready()
            assert (await client.get_model_metadata("matmul")).name == "matmul"
            single = await client.infer("matmul", make_inputs(a, b))

            async def requests() -> Any:
                for _ in range(3):
                    yield {"model_name": "matmul", "inputs": make_inputs(a, b)}

            return [single, *[one async for one, _ in client.stream_infer(requests())]]

    answers = asyncio.run(ask())
    assert len(answers) == 4
    for answer in answers:
        assert_product(answer.as_numpy("C"), a, b)


def test_successes_and_failures_are_counted(client: InferenceServerClient) -> None:
    def count() -> tuple[int, int]:
        (stats,) = client.get_inference_statistics("matmul").model_stats
        return stats.inference_stats.success.count, stats.inference_stats.fail.count

    before = count()
    client.infer("matmul", make_inputs(*draw()[:2]))
    with pytest.raises(InferenceServerException):
        client.infer("matmul", make_inputs(draw()[0]))
    assert count() == (before[0] + 1, before[1] + 1)


def test_tensors_lie_in_shared_memory(client: InferenceServerClient) -> None:
    a, b, c = draw()
    region = shared_memory.create_shared_memory_region("region", f"{PREFIX}1", 4096)
    try:
        for name, size in (("", 4096), ("region", 0), ("region", 4097)):
            with pytest.raises(InferenceServerException) as refused:
                client.register_system_shared_memory(name, f"{PREFIX}1", size)
            assert refused.value.status() == "StatusCode.INVALID_ARGUMENT"
        client.register_system_shared_memory("region", f"{PREFIX}1", 4096)
        shown = client.get_system_shared_memory_status().regions["region"]
        assert (shown.key, shown.byte_size) == (f"{PREFIX}1", 4096)
        shared_memory.set_shared_memory_region(region, [a])
        inputs, output = make_inputs(a, b), InferRequestedOutput("C")
        inputs[0].set_shared_memory("region", a.nbytes)
        output.set_shared_memory("region", c.nbytes, offset=1024)
        client.infer("matmul", inputs, outputs=[output])
        found = shared_memory.get_contents_as_numpy(region, "float32", c.shape, offset=1024)
        assert_product(found, a, b)
        os.truncate(f"/dev/shm{PREFIX}1", 100)
        with pytest.raises(InferenceServerException, match="100 bytes that"):
            client.infer("matmul", inputs, outputs=[output])
        client.unregister_system_shared_memory()
    finally:
        shared_memory.destroy_shared_memory_region(region)


def test_an_impossible_request_is_refused_by_its_status(client: InferenceServerClient) -> None:
    a, b, _ = draw()
    long = np.ones((1, MESSAGE_BYTES // 4), "float32")
    column, row = np.ones((600, 1), "float32"), np.ones((1, 600), "float32")
    refused: list[tuple[Any, str, str]] = [
        (lambda: client.get_model_metadata("convolve"), "NOT_FOUND", "matmul"),
        (lambda: client.infer("matmul", make_inputs(a, a)), "INVALID_ARGUMENT", "shape of b"),
        (lambda: client.infer("matmul", make_inputs(long, long)), "RESOURCE_EXHAUSTED", "larger"),
        (lambda: client.infer("matmul", make_inputs(column, row)), "INVALID_ARGUMENT",
         "grpc_max_message_bytes"),
        (lambda: client.infer("matmul", make_inputs(a, b), compression_algorithm="gzip"),
         "UNIMPLEMENTED", "disabled"),
        (lambda: client.load_model("matmul"), "UNIMPLEMENTED", "not found"),
        (client.get_cuda_shared_memory_status, "UNIMPLEMENTED", "not found"),
    ]  # fmt: skip
    for call, status, words in refused:
        with pytest.raises(InferenceServerException, match=words) as error:
            call()
        assert error.value.status() == f"StatusCode.{status}"


def test_a_key_is_asked_for_and_connections_are_encrypted(
    start_server: Start, tmp_path: Path
) -> None:
    port, (chain, key) = find_free_port(), make_certificate(tmp_path)
    settings = {"api_key": OWN_KEY, "tls_certificate": chain, "tls_key": key}
    start_server(grpc_port=port, **settings).wait_ready()
    a, b, _ = draw()
    with InferenceServerClient(
        f"localhost:{port}", ssl=True, root_certificates=str(chain)
    ) as client:
        assert client.is_server_ready()
        for call in (lambda: client.infer("matmul", make_inputs(a, b)), client.get_server_metadata):
            with pytest.raises(InferenceServerException, match="API key") as refused:
                call()
            assert refused.value.status() == "StatusCode.UNAUTHENTICATED"
        answers: queue.Queue[Any] = queue.Queue()
        client.start_stream(lambda result, error: answers.put((result, error)))
        assert "UNAUTHENTICATED" in str(answers.get(timeout=60)[1])
        client.stop_stream()
        headers = {"authorization": f"Bearer {OWN_KEY}"}
        found = client.infer("matmul", make_inputs(a, b), headers=headers).as_numpy("C")
        assert_product(found, a, b)


class Stream:
    """A stream of requests that wait for nothing: the next is sent by `ask`."""

    def __init__(self, channel: grpc.Channel, key: str | None = None) -> None:
        self._requests: queue.Queue[Any] = queue.Queue()
        call = channel.stream_stream(
            f"/{SERVICE}/ModelStreamInfer",
            request_serializer=service_pb2.ModelInferRequest.SerializeToString,
            response_deserializer=service_pb2.ModelStreamInferResponse.FromString,
        )
        metadata = None if key is None else [("authorization", f"Bearer {key}")]
        self.call = call(iter(self._requests.get, None), metadata=metadata, timeout=60)

    def ask(self) -> None:
        """Ask for a product, and make sure of it."""
        a, b, _ = draw()
        self._requests.put(make_typed(a, b))
        answer = next(self.call)
        assert not answer.error_message
        found = np.frombuffer(answer.infer_response.raw_output_contents[0], a.dtype)
        assert_product(found.reshape(5, 3), a, b)

    def end(self) -> None:
        """Send no more requests."""
        self._requests.put(None)
        assert list(self.call) == []


def test_a_stream_ends_with_the_key_or_the_token_of_its_caller(
    start_server: Start, tmp_path: Path
) -> None:
    issuer = Issuer()
    issuer.add("key", "ES256")
    jwks = tmp_path / "jwks.json"
    jwks.write_text(json.dumps(issuer.describe()))
    settings = {"jwt_issuer": ISSUER, "jwt_audience": AUDIENCE, "jwt_jwks": jwks}
    server = start_server(grpc_port=find_free_port(), **settings)
    server.wait_ready()
    keys = {name: manage_keys(server, "add", name) for name in ("ada", "eve")}
    callers = {name: open_caller(server, key) for name, key in keys.items()}
    keys["token"] = issuer.sign("key", exp=int(time.time()) - 30 + 8)  # 30 s for other clocks
    with grpc.insecure_channel(find_address(server)) as channel:
        streams = {name: Stream(channel, keys[name]) for name in ("token", "ada", "eve")}
        for stream in streams.values():
            stream.ask()
        callers["token"] = open_http(
            server.url, headers={"Authorization": f"Bearer {keys['token']}"}
        )
        manage_keys(server, "revoke", "ada")
        for name in ("ada", "token"):
            wait_until(lambda name=name: callers[name].get("/v1/me").status_code == 401)
            with pytest.raises(grpc.RpcError) as refused:
                streams[name].ask()
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        streams["eve"].ask()
        streams["eve"].end()
    for caller in callers.values():
        caller.close()


def test_quotas_of_a_stream_are_those_of_now(start_server: Start) -> None:
    server = start_server(grpc_port=find_free_port())
    server.wait_ready()
    caller = open_caller(server, key := manage_keys(server, "add", "ada"))
    with grpc.insecure_channel(find_address(server)) as channel:
        stream = Stream(channel, key)
        stream.ask()
        manage_keys(server, "limit", "ada", "--max-bytes-in-flight", "1")
        wait_until(lambda: caller.get("/v1/me").json()["bytes_in_flight"]["limit"] == 1)
        with pytest.raises(AssertionError, match="max-bytes-in-flight"):
            stream.ask()
        stream.end()
    caller.close()


def test_a_call_whose_next_message_does_not_come_is_ended(start_server: Start) -> None:
    server = start_server(grpc_port=find_free_port(), upload_idle_seconds=1)
    server.wait_ready()
    with grpc.insecure_channel(find_address(server)) as channel:
        silent, idle = Stream(channel), Stream(channel)
        idle.ask()
        single = channel.stream_unary(f"/{SERVICE}/ModelInfer")
        never = threading.Event()
        calls = [silent.call, idle.call, single.future(iter(never.wait, True), timeout=60)]
        for call in calls:
            assert call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            assert "within 1 s" in call.details()
        Stream(channel).ask()
        never.set()


def test_it_is_refused_where_there_is_no_port_to_have() -> None:
    settings = Settings(grpc_port=0, tcp="off", unix_socket=Path("socket"))
    with pytest.raises(SettingRefused, match="grpc_port is 0"):
        create_app(settings)
