"""Products by the Open Inference Protocol: right for every element type, form and shape."""

import gzip
import json
import zlib

import numpy as np
import pytest
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput

from tests.matrices import assert_product, make_matrix
from tests.refusals import expect_refusal
from tests.service.api.wire.wire_server import exchange
from wavetrim.service.api.v2.schemas import NAMES

INFER = "/v2/models/matmul/infer"


def make_client(server, **options):
    return InferenceServerClient(server.url.removeprefix("http://"), **options)


def make_inputs(*tensors, binary=True):
    inputs = []
    for name, tensor in zip("ABC", tensors, strict=False):
        one = InferInput(name, list(tensor.shape), NAMES[tensor.dtype.name])
        inputs.append(one.set_data_from_numpy(tensor, binary_data=binary))
    return inputs


def infer(client, *tensors, **asked):
    """The output C, by the public client."""
    binary = asked.pop("binary", True)
    outputs = [InferRequestedOutput("C", binary_data=binary)]
    inputs = make_inputs(*tensors, binary=binary)
    return client.infer("matmul", inputs, outputs=outputs, **asked).as_numpy("C")


def draw_stack(shape, seed, dtype="float64"):
    matrix = make_matrix(int(np.prod(shape[:-1])), shape[-1], dtype, seed)
    return np.ascontiguousarray(matrix).reshape(shape)


@pytest.mark.parametrize("coding", [None, "gzip", "deflate"])
@pytest.mark.parametrize("size", [1, 300])
def test_bodies_of_any_length_and_coding_are_received(shared_server, size, coding):
    a, b = (make_matrix(size, size, "float32", seed) for seed in (1, 2))
    found = infer(
        make_client(shared_server), a, b,
        request_compression_algorithm=coding, response_compression_algorithm=coding,
    )  # fmt: skip
    assert_product(found, a, b)


def test_an_answer_names_request_and_model_and_without_a_wish_it_is_json(shared_server):
    schemas = shared_server.client.get("/openapi.json").json()["components"]["schemas"]
    (example,) = schemas["InferHead"]["examples"]
    response = shared_server.client.post(INFER, json={**example, "id": "seven"})
    assert response.status_code == 200
    assert response.headers["wavetrim-f-actual"] == "1"
    assert "total;dur=" in response.headers["server-timing"]
    assert response.json() == {
        "id": "seven",
        "model_name": "matmul",
        "model_version": "1",
        "parameters": {"f": 1, "f_actual": 1},
        "outputs": [{"name": "C", "datatype": "FP32", "shape": [1, 1], "data": [11.0]}],
    }


def test_what_clients_add_to_every_request_is_ignored_as_triton_does(shared_server):
    added = {"classification": 1, "sequence_id": 7, "x": {"y": [1]}}
    first = {"parameters": added}
    document = ask(a=first, parameters={"alpha": 2, **added}, outputs=[{"name": "C", **first}])
    answer = shared_server.client.post(f"{INFER}?client=17", json={**document, "trace": added})
    assert answer.status_code == 200, answer.text
    assert answer.json()["outputs"][0]["data"] == [2.0]
    assert shared_server.client.get("/v2/models/matmul?client=17").status_code == 200
    many = {f"p{i}": i for i in range(2000)}
    refused = shared_server.client.post(INFER, json=ask(parameters=many))
    expect_refusal(refused, 422, "body")


def test_bfloat16_is_taken_and_sent_as_json_too(shared_server):
    """The public client sends it as binary data only."""
    a = {"name": "A", "datatype": "BF16", "shape": [1, 2], "data": [1.5, -2]}
    b = {"name": "B", "datatype": "BF16", "shape": [2, 1], "data": [256, 0.5]}
    answer = shared_server.client.post(INFER, json={"inputs": [a, b]}).json()
    assert answer["outputs"] == [
        {"name": "C", "datatype": "BF16", "shape": [1, 1], "data": [384.0]}
    ]
    huge = {**b, "data": [3.4e38, 0]}
    refused = shared_server.client.post(INFER, json={"inputs": [a, huge]})
    expect_refusal(refused, 422, "inputs[1].data", limit="(BF16)")


@pytest.mark.parametrize(
    ("datatype", "data"),
    [
        ("UINT64", [2**64 - 1, 1]),
        ("UINT64", [0, 2**63]),
        ("INT64", [-(2**63), 2**63 - 1]),
        ("FP32", [2**70, 0.5]),
        ("FP64", [10**20, 1]),
    ],
)
def test_numbers_above_2_to_the_63_are_taken_beside_small_ones(shared_server, datatype, data):
    tensors = [("A", [2, 1], data), ("B", [1, 1], [1])]
    inputs = [
        {"name": name, "datatype": datatype, "shape": shape, "data": values}
        for name, shape, values in tensors
    ]
    answer = shared_server.client.post(INFER, json={"inputs": inputs})
    assert answer.status_code == 200, answer.text
    assert answer.json()["outputs"][0]["data"] == data


@pytest.mark.parametrize(
    ("datatype", "data", "odd"),
    [
        ("INT8", [2, 1.5], 1.5),
        ("INT8", [1, None], None),
        ("FP32", [[1], ["x"]], "x"),
        ("UINT64", [1, 2**64], 2**64),
        ("UINT64", [2**63, -1], -1),
        ("FP64", [1, 10**400], 10**400),
    ],
)
def test_a_refused_element_is_the_one_that_is_wrong(shared_server, datatype, data, odd):
    tensor = {"name": "A", "datatype": datatype, "shape": [2, 1], "data": data}
    document = {"inputs": [tensor, {**tensor, "name": "B"}]}
    refused = shared_server.client.post(INFER, json=document)
    expect_refusal(refused, 422, "inputs[0].data", value=odd)


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip", "gzip"),
        ("Deflate ; q=0.5", "deflate"),
        ("gzip;q=1.000", "gzip"),
        ("gzip;q=0", None),
        ("gzip; q=0.00", None),
        ("gzip;q=x", None),
        ("gzip, deflate", None),
        ("br", None),
    ],
)
def test_an_answer_is_compressed_only_as_its_caller_accepts_it(shared_server, accepted, coding):
    headers = {"Accept-Encoding": accepted}
    answer = shared_server.client.post(INFER, json=ask(), headers=headers)
    assert answer.headers.get("content-encoding") == coding
    assert answer.json()["outputs"][0]["data"] == [1.0]


def encode(*tensors, changed=None):
    """Headers and body of a request with binary tensors; `changed` overrides A's description."""
    inputs = [
        {
            "name": name,
            "datatype": NAMES[tensor.dtype.name],
            "shape": list(tensor.shape),
            "parameters": {"binary_data_size": tensor.nbytes},
        }
        for name, tensor in zip("ABC", tensors, strict=False)
    ]
    inputs[0].update(changed or {})
    document = {"inputs": inputs, "parameters": {"binary_data_output": True}}
    head = json.dumps(document).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    return headers, b"".join([head, *(tensor.tobytes() for tensor in tensors)])


ONES = np.ones((2, 2), "float32")
HEADERS, BODY = encode(ONES, ONES)
JSON = {"Content-Type": "application/json"}


def ask(**changed):
    """A request in JSON: A and B are 1 x 1; `a` overrides A, the rest the request."""
    one = {"name": "A", "datatype": "FP32", "shape": [1, 1], "data": [1]}
    first = {**one, **changed.pop("a", {})}
    return {"inputs": [first, {**one, "name": "B"}], **changed}


REFUSED_JSON = [
    (ask(a={"name": "D"}), 422, "inputs.0.name"),
    (ask(a={"name": "B"}), 422, "inputs"),
    (ask(a={"datatype": "BYTES"}), 422, "inputs.0.datatype"),
    (ask(a={"datatype": "COMPLEX64"}), 422, "inputs.0.datatype"),  # the protocol has none
    (ask(a={"datatype": "FP64"}), 422, "dtype of b"),
    (ask(a={"shape": [1]}), 422, "inputs.0.shape"),
    (ask(a={"shape": [1, -1]}), 422, "inputs.0.shape.1"),
    (ask(a={"shape": [1, 1, 1, 1]}), 422, "inputs.0.shape"),
    (ask(a={"shape": [1, 2], "data": [1, 2]}), 422, "shape of b"),
    (ask(a={"shape": [3, 1, 1], "data": [1, 2]}), 422, "inputs[0].data"),
    (ask(a={"data": [[1], [2, 3]]}), 422, "inputs[0].data"),
    (ask(a={"data": ["1"]}), 422, "inputs[0].data"),
    (ask(a={"data": [True]}), 422, "inputs[0].data"),
    (ask(a={"data": [1e300]}), 422, "inputs[0].data"),
    (ask(a={"datatype": "INT8", "data": [128]}), 422, "inputs[0].data"),
    (ask(a={"datatype": "INT8", "data": [1.5]}), 422, "inputs[0].data"),
    (ask(a={"datatype": "UINT64", "data": [-1]}), 422, "inputs[0].data"),
    (ask(a={"data": None}), 422, "inputs[0]"),
    (ask(a={"parameters": {"binary_data_size": 4}}), 422, "inputs[0]"),
    (ask(a={"shape": [True, 1]}), 422, "inputs.0.shape.0"),
    (ask(a={"data": [1, True], "shape": [2, 1]}), 422, "inputs[0].data"),
    (ask(a={"data": [False, 0.5], "shape": [2, 1]}), 422, "inputs[0].data"),
    (ask(outputs=[{"name": "A"}]), 422, "outputs.0.name"),
    (
        ask(outputs=[{"name": "C", "parameters": {"binary_data": "yes"}}]),
        422,
        "outputs.0.parameters.binary_data",
    ),
    (ask(parameters={"alpha": True}), 422, "parameters.alpha"),
    (ask(parameters={"f": "16"}), 422, "parameters.f"),
    (ask(parameters={"sms": "16"}), 422, "parameters.sms"),
    (ask(parameters={"verify": 1}), 422, "parameters.verify"),
    (ask(parameters={"beta": 1}), 422, "c"),
    (ask(parameters={"alpha": 1e39}), 422, "alpha"),
    (ask(parameters={"f": 2}), 422, "f"),
    (ask(parameters={"kernel": "none"}), 422, "kernel"),
    (ask(parameters={"alpha": 1e38, "f": "auto"}, a={"data": [1e10]}), 422, "C"),
    (ask(parameters={"priority": -1}), 422, "parameters.priority"),
    (ask(parameters={"priority": "high"}), 422, "parameters.priority"),
    (ask(parameters={"timeout": -1}), 422, "parameters.timeout"),
    (ask(parameters={"timeout": 1.5}), 422, "parameters.timeout"),
    ({"inputs": []}, 422, "inputs"),
]
"""Requests, the status of their refusal, and the field that it names."""


@pytest.mark.parametrize(("document", "status", "field"), REFUSED_JSON)
def test_what_cannot_be_computed_is_refused_by_its_field(shared_server, document, status, field):
    check_refusal(shared_server.client.post(INFER, json=document), status, field)


def with_head(length):
    return {"Inference-Header-Content-Length": length}


LONG = encode(ONES, ONES, changed={"parameters": {"binary_data_size": 2**20}, "shape": [2**17, 2]})
REFUSED_BODIES = [
    (HEADERS, BODY[:-1], 400, "body"),
    (HEADERS, BODY + b"1", 400, "body"),
    (*LONG, 400, "body"),
    (HEADERS, gzip.compress(BODY), 400, "body"),
    ({**HEADERS, "Content-Encoding": "gzip"}, gzip.compress(BODY[:-1]), 400, "body"),
    ({**HEADERS, "Content-Encoding": "gzip"}, gzip.compress(BODY)[:-20], 400, "body"),
    ({**HEADERS, "Content-Encoding": "gzip"}, gzip.compress(BODY) + b"1", 400, "body"),
    ({**HEADERS, "Content-Encoding": "deflate"}, zlib.compress(BODY + b"1"), 400, "body"),
    ({**HEADERS, "Content-Encoding": "gzip"}, BODY, 415, "Content-Encoding"),
    ({**HEADERS, "Content-Encoding": "br"}, BODY, 415, "Content-Encoding"),
    ({**HEADERS, "Content-Type": "text/html"}, BODY, 415, "Content-Type"),
    ({**HEADERS, "Origin": "http://x"}, BODY, 415, "Content-Type"),
    ({**HEADERS, "Origin": "http://x", "Content-Type": "text/plain"}, BODY, 415, "Content-Type"),
    ({**HEADERS, "Content-Digest": f"sha-256=:{'A' * 43}=:"}, BODY, 400, "Content-Digest"),
    (with_head("x"), BODY, 422, "Inference-Header-Content-Length"),
    (with_head(str(2**30)), BODY, 413, "Inference-Header-Content-Length"),
    (with_head("1000"), BODY, 400, "body"),
    (with_head("0"), BODY, 400, "body"),
    (with_head("10"), BODY, 400, "body"),
    (JSON, b"[" * 9_000_000, 413, "body"),
    (JSON, b"[" * 100_000, 422, "body"),
    (JSON, b"[" * 1_000, 400, "body"),
    (JSON, b"[]", 422, "body"),
]
"""Headers and bodies, the status of their refusal, and the field that it names."""


@pytest.mark.parametrize(("headers", "body", "status", "field"), REFUSED_BODIES)
def test_a_body_that_is_not_what_it_announces_is_refused(
    shared_server, headers, body, status, field
):
    check_refusal(shared_server.client.post(INFER, content=body, headers=headers), status, field)


def check_refusal(response, status, field):
    problem = expect_refusal(response, status, field)
    assert problem["error"] == problem["detail"]


def test_a_body_inflates_no_further_than_it_announces(shared_server):
    bomb = zlib.compressobj()
    zeros = bytes(2**20)
    content = (
        bomb.compress(BODY) + b"".join(bomb.compress(zeros) for _ in range(256)) + bomb.flush()
    )
    headers = {**HEADERS, "Content-Encoding": "deflate"}
    check_refusal(shared_server.client.post(INFER, content=content, headers=headers), 400, "body")
    unheaded = {"Content-Encoding": "deflate"}
    check_refusal(shared_server.client.post(INFER, content=content, headers=unheaded), 413, "body")


@pytest.mark.parametrize(("length", "status"), [(2**17, 400), (2**50, 413)])
def test_a_body_of_another_length_is_refused_before_its_tensors_come(shared_server, length, status):
    head = BODY[: int(HEADERS["Inference-Header-Content-Length"])]
    lines = [f"POST {INFER} HTTP/1.1", "Host: localhost", f"Content-Length: {length}"]
    lines += [f"{name}: {value}" for name, value in HEADERS.items()]
    request = "\r\n".join([*lines, "", ""]).encode() + head
    assert exchange(shared_server, request)[0] == status
