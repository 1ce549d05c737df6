"""The public clients, unmodified: every call that they have for a model of this kind."""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http.aio
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput
from tritonclient.utils import InferenceServerException, shared_memory

from tests.matrices import Array, assert_product, make_matrix
from tests.server import RunningServer

PREFIX = f"/wavetrim-test-{os.getpid()}-"
SHAPES = [(40, 30), (30, 20)]


class AwaitedClient:
    """The asynchronous client, whose calls are awaited at once."""

    def __init__(self, address: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = self._loop.run_until_complete(self._open(address))

    async def _open(self, address: str) -> Any:
        return tritonclient.http.aio.InferenceServerClient(address)

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._client, name)
        return lambda *args, **named: self._loop.run_until_complete(function(*args, **named))

    def close(self) -> None:
        self._loop.run_until_complete(self._client.close())
        self._loop.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("v2") / "data"
    with RunningServer(folder, v2_shared_memory=PREFIX) as running:
        yield running


@pytest.fixture(params=[InferenceServerClient, AwaitedClient], ids=["blocking", "asyncio"])
def client(request: pytest.FixtureRequest, server: RunningServer) -> Iterator[Any]:
    opened = request.param(server.url.removeprefix("http://"))
    yield opened
    opened.close()


def make_inputs() -> tuple[list[InferInput], list[Array]]:
    matrices = [make_matrix(*shape, "float32", seed) for seed, shape in enumerate(SHAPES)]
    inputs = [
        InferInput(name, list(shape), "FP32") for name, shape in zip("AB", SHAPES, strict=True)
    ]
    return [x.set_data_from_numpy(y) for x, y in zip(inputs, matrices, strict=True)], matrices


def test_server_and_model_are_described(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("matmul")
    assert client.is_model_ready("matmul", "1")
    assert not client.is_model_ready("matmul", "2")
    assert not client.is_model_ready("convolve")
    assert "system_shared_memory" in client.get_server_metadata()["extensions"]
    for version in ("", "1"):
        metadata = client.get_model_metadata("matmul", version)
        assert [one["name"] for one in metadata["inputs"]] == ["A", "B", "C"]
        config = client.get_model_config("matmul", version)
        assert [one["optional"] for one in config["input"]] == [False, False, True]
    (entry,) = client.get_model_repository_index()
    assert (entry["name"], entry["state"]) == ("matmul", "READY")


@pytest.mark.parametrize("version", ["", "1"])
def test_products_are_computed_and_counted(client: Any, version: str) -> None:
    inputs, matrices = make_inputs()

    def count() -> list[int]:
        (stats,) = client.get_inference_statistics("matmul", version)["model_stats"]
        assert client.get_inference_statistics()["model_stats"][0]["name"] == "matmul"
        durations = stats["inference_stats"]
        for name, one in durations.items():
            assert one["ns"] > 0 or not one["count"] or name == "queue"  # the smallest do not wait
        return [stats["inference_count"], durations["success"]["count"], durations["fail"]["count"]]

    before = count()
    answer = client.infer("matmul", inputs, version, request_id="7", priority=1, timeout=10**6)
    assert_product(answer.as_numpy("C"), *matrices)
    assert answer.get_response()["id"] == "7"
    with pytest.raises(InferenceServerException, match="shape of b"):
        client.infer("matmul", [inputs[0], InferInput("B", [1, 1], "FP32").set_data_from_numpy(
            np.ones((1, 1), "float32"))], version)  # fmt: skip
    assert count() == [before[0] + 1, before[1] + 1, before[2] + 1]


def test_the_blocking_client_has_requests_under_way(server: RunningServer) -> None:
    inputs, matrices = make_inputs()
    with contextlib.closing(
        InferenceServerClient(server.url.removeprefix("http://"), concurrency=4)
    ) as client:
        asked = [client.async_infer("matmul", inputs) for _ in range(12)]
        for one in asked:
            assert_product(one.get_result().as_numpy("C"), *matrices)


def test_what_is_not_there_is_refused_in_words(client: Any) -> None:
    for call in (
        lambda: client.get_model_metadata("convolve"),
        lambda: client.infer("matmul", make_inputs()[0], "2"),
        lambda: client.load_model("matmul"),
        lambda: client.update_log_settings({}),
        client.get_cuda_shared_memory_status,
    ):
        with pytest.raises(InferenceServerException) as refused:
            call()
        assert refused.value.status() == "404"
        assert "decoding" not in refused.value.message()


@contextlib.contextmanager
def create_region(key: str, size_bytes: int) -> Iterator[Any]:
    region = shared_memory.create_shared_memory_region("region", key, size_bytes)
    try:
        yield region
    finally:
        shared_memory.destroy_shared_memory_region(region)


def place(inputs: list[InferInput], matrices: list[Array], region: Any, begin: int) -> int:
    """Put the matrices into a region; returns where they end."""
    for one, matrix in zip(inputs, matrices, strict=True):
        shared_memory.set_shared_memory_region(region, [matrix], offset=begin)
        one.set_shared_memory("region", matrix.nbytes, offset=begin)
        begin += matrix.nbytes
    return begin


def test_tensors_lie_in_shared_memory(client: Any) -> None:
    inputs, matrices = make_inputs()
    expected = matrices[0] @ matrices[1]
    output = InferRequestedOutput("C")
    with create_region(f"{PREFIX}1", 2**16) as region:
        end = place(inputs, matrices, region, 0)
        client.register_system_shared_memory("region", f"{PREFIX}1", 2**16)
        (entry,) = client.get_system_shared_memory_status()
        assert entry == client.get_system_shared_memory_status("region")[0]
        assert entry["byte_size"] == 2**16
        output.set_shared_memory("region", expected.nbytes, offset=end)
        answer = client.infer("matmul", inputs, outputs=[output])
        assert answer.get_output("C")["parameters"] == {
            "shared_memory_region": "region",
            "shared_memory_byte_size": expected.nbytes,
            "shared_memory_offset": end,
        }
        found = shared_memory.get_contents_as_numpy(region, "float32", expected.shape, offset=end)
        assert_product(found, *matrices)
        sent = client.infer("matmul", inputs)
        assert_product(sent.as_numpy("C"), *matrices)
        client.unregister_system_shared_memory("region")
        with pytest.raises(InferenceServerException, match="no region"):
            client.infer("matmul", inputs)
        client.unregister_system_shared_memory()
        assert client.get_system_shared_memory_status() == []


def test_a_region_that_is_cut_off_is_refused_and_nothing_dies(
    client: Any, server: RunningServer
) -> None:
    inputs, matrices = make_inputs()
    engine = server.find_engine()
    output = InferRequestedOutput("C")
    with create_region(f"{PREFIX}2", 2**16) as region:
        end = place(inputs, matrices, region, 0)
        client.register_system_shared_memory("region", f"{PREFIX}2", 2**16)
        output.set_shared_memory("region", 40 * 20 * 4, offset=end)
        for size in (0, end - 1, end):
            os.truncate(f"/dev/shm{PREFIX}2", size)
            with pytest.raises(InferenceServerException, match=f"{size} bytes that .* has now"):
                client.infer("matmul", inputs, outputs=[output])
        client.unregister_system_shared_memory()
    assert server.find_engine() == engine
    assert client.is_model_ready("matmul")


def test_only_shared_memory_of_the_prefix_is_registered(client: Any) -> None:
    with create_region(f"{PREFIX}3", 4096), contextlib.ExitStack() as stack:
        link = f"/dev/shm{PREFIX}link"
        Path(link).symlink_to(f"/dev/shm{PREFIX}3")
        stack.callback(os.unlink, link)
        os.mkfifo(f"/dev/shm{PREFIX}pipe")
        stack.callback(os.unlink, f"/dev/shm{PREFIX}pipe")
        refused: list[tuple[str, int, int, str]] = [
            ("/other", 4096, 0, "begins with"),
            (f"{PREFIX}/../3", 4096, 0, "without slashes"),
            (f"{PREFIX}none", 4096, 0, "No such file"),
            (f"{PREFIX}link", 4096, 0, "symbolic links"),
            (f"{PREFIX}pipe", 4096, 0, "no other kind of file"),
            (f"{PREFIX}3", 4097, 0, "4096 bytes that"),
            (f"{PREFIX}3", 4096, 1, "4096 bytes that"),
            (f"{PREFIX}3", 0, 0, "byte_size"),
        ]
        for key, size, offset, words in refused:
            with pytest.raises(InferenceServerException, match=words):
                client.register_system_shared_memory("region", key, size, offset=offset)
        client.register_system_shared_memory("region", f"{PREFIX}3", 4096)
        with pytest.raises(InferenceServerException, match="not registered"):
            client.register_system_shared_memory("region", f"{PREFIX}3", 4096)
        one = InferInput("A", [32, 30], "FP32")
        one.set_shared_memory("region", 3840, offset=257)
        with pytest.raises(InferenceServerException, match="within the 4096 bytes of region"):
            client.infer("matmul", [one, make_inputs()[0][1]])
        client.unregister_system_shared_memory()


def test_without_the_setting_nothing_is_registered(shared_server: RunningServer) -> None:
    client = InferenceServerClient(shared_server.url.removeprefix("http://"))
    assert "system_shared_memory" not in client.get_server_metadata()["extensions"]
    with (
        create_region(f"{PREFIX}4", 4096),
        pytest.raises(InferenceServerException, match="WAVETRIM_V2_SHARED_MEMORY"),
    ):
        client.register_system_shared_memory("region", f"{PREFIX}4", 4096)


@pytest.mark.parametrize("media_type", ["text/plain;charset=UTF-8", "multipart/form-data", None])
def test_a_web_page_cannot_register_regions(server: RunningServer, media_type: str | None) -> None:
    """Browsers send these types to other origins without asking them."""
    headers = {"Origin": "http://elsewhere.example"}
    headers |= {"Content-Type": media_type} if media_type else {}
    for path, content in (
        ("unregister", b""),
        ("region/x/register", b'{"key": "/x", "byte_size": 1}'),
    ):
        answer = server.client.post(
            f"/v2/systemsharedmemory/{path}", content=content, headers=headers
        )
        assert (answer.status_code, answer.json()["field"]) == (415, "Content-Type")
