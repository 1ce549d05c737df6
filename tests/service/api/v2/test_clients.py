"""The public clients, unmodified: every call that they have for a model of this kind."""

import asyncio
import contextlib

import numpy as np
import pytest
import tritonclient.http.aio
from tritonclient.http import InferInput, InferRequestedOutput
from tritonclient.utils import InferenceServerException

from tests.clients import KINDS, Awaited
from tests.matrices import assert_product, make_matrix
from tests.service.api.v2.test_infer import make_client, make_inputs

MATRICES = make_matrix(40, 30, "float32", seed=0), make_matrix(30, 20, "float32", seed=1)


async def open_asynchronous(address):
    return tritonclient.http.aio.InferenceServerClient(address)


@pytest.fixture
def event_loop():
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        yield loop


@pytest.fixture(params=KINDS)
def client(request, shared_server, event_loop):
    """The blocking client, then the asynchronous one, whose calls are awaited at once."""
    if request.param == "blocking":
        opened = make_client(shared_server)
    else:
        opening = open_asynchronous(shared_server.url.removeprefix("http://"))
        opened = Awaited(event_loop.run_until_complete(opening), event_loop)
    yield opened
    opened.close()


def test_server_and_model_are_described(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("matmul")
    assert client.is_model_ready("matmul", "1")
    assert not client.is_model_ready("matmul", "2")
    assert not client.is_model_ready("convolve")
    extensions = client.get_server_metadata()["extensions"]
    assert extensions == ["binary_tensor_data", "model_configuration", "statistics"]
    for version in ("", "1"):
        metadata = client.get_model_metadata("matmul", version)
        assert [one["name"] for one in metadata["inputs"]] == ["A", "B", "C"]
        config = client.get_model_config("matmul", version)
        assert [one["optional"] for one in config["input"]] == [False, False, True]
    (entry,) = client.get_model_repository_index()
    assert (entry["name"], entry["state"]) == ("matmul", "READY")


@pytest.mark.parametrize("version", ["", "1"])
def test_products_are_computed_and_counted(client, version):
    inputs = make_inputs(*MATRICES)

    def count():
        (stats,) = client.get_inference_statistics("matmul", version)["model_stats"]
        assert client.get_inference_statistics()["model_stats"][0]["name"] == "matmul"
        durations = stats["inference_stats"]
        for name, one in durations.items():
            assert one["ns"] > 0 or not one["count"] or name == "queue"  # the smallest do not wait
        return [stats["inference_count"], durations["success"]["count"], durations["fail"]["count"]]

    before = count()
    answer = client.infer("matmul", inputs, version, request_id="7", priority=1, timeout=10**6)
    assert_product(answer.as_numpy("C"), *MATRICES)
    assert answer.get_response()["id"] == "7"
    with pytest.raises(InferenceServerException, match="shape of b"):
        client.infer("matmul", [inputs[0], InferInput("B", [1, 1], "FP32").set_data_from_numpy(
            np.ones((1, 1), "float32"))], version)  # fmt: skip
    assert count() == [before[0] + 1, before[1] + 1, before[2] + 1]


def test_the_blocking_client_has_requests_under_way(shared_server):
    inputs = make_inputs(*MATRICES)
    with contextlib.closing(make_client(shared_server, concurrency=4)) as client:
        asked = [client.async_infer("matmul", inputs) for _ in range(12)]
        for one in asked:
            assert_product(one.get_result().as_numpy("C"), *MATRICES)


def test_what_is_not_there_is_refused_in_words(client):
    for call in (
        lambda: client.get_model_metadata("convolve"),
        lambda: client.infer("matmul", make_inputs(*MATRICES), "2"),
        lambda: client.load_model("matmul"),
        lambda: client.update_log_settings({}),
        client.get_cuda_shared_memory_status,
        client.get_system_shared_memory_status,
        lambda: client.register_system_shared_memory("region", "/region", 4096),
    ):
        with pytest.raises(InferenceServerException) as refused:
            call()
        assert refused.value.status() == "404"
        assert "decoding" not in refused.value.message()


def test_tensors_in_shared_memory_are_refused(client):
    """A client that reads its result from a region would find old bytes there."""
    inputs, output = make_inputs(*MATRICES), InferRequestedOutput("C")
    output.set_shared_memory("region", 40 * 20 * 4)
    with pytest.raises(InferenceServerException, match="shared_memory_region is 'region'"):
        client.infer("matmul", inputs, outputs=[output])
    inputs[0].set_shared_memory("region", 40 * 30 * 4)
    with pytest.raises(InferenceServerException, match=r"inputs\[0\] is 'neither'"):
        client.infer("matmul", inputs)
