"""The API's description: every operation and header that is sent is in it, and what queries say."""

import numpy as np
import pytest

from tests.refusals import expect_refusal
from tests.server import NPY, encode_npy
from wavetrim.service.app import create_app

FRAMING = {"connection", "content-length", "content-type", "date", "transfer-encoding"}
"""What HTTP itself is about, which OpenAPI leaves out."""

EYE = np.eye(4)


def send_all(server):
    """Answers of many kinds, each with the path that the document has for it."""
    client, found = server.client, []

    def ask(method, path, named="", **more):
        answer = client.request(method, path, **more)
        found.append((named or path.partition("?")[0], answer))
        return answer

    key = {"Idempotency-Key": "once for the headers"}
    file = encode_npy(EYE)
    for _ in range(2):
        sent = ask("POST", "/v1/matrices", content=file, headers={**NPY, **key})
    name = sent.json()["id"]
    ask("POST", "/v1/matmul?verify=true", content=file + file, headers=NPY)
    ask("POST", "/v1/matmul?verfy=true", content=file + file, headers=NPY)
    job = ask("POST", "/v1/jobs", json={"a": name, "b": name}).json()["id"]
    ask("GET", f"/v1/jobs/{job}?wait_seconds=30", "/v1/jobs/{job_id}")
    data = f"/v1/matrices/{name}/data"
    etag = client.get(data).headers["etag"]
    other = {"If-Match": '"other"'}
    ranges = [{"Range": "bytes=0-9"}, {"Range": "bytes=9999999-"}]
    for more in ({}, *ranges, {"If-None-Match": etag}, other):
        ask("GET", data, "/v1/matrices/{matrix_id}/data", headers=more)
        ask("GET", f"/v1/jobs/{job}/result", "/v1/jobs/{job_id}/result", headers=more)
    ask("GET", "/v1/matrices/none", "/v1/matrices/{matrix_id}")
    ask("DELETE", f"/v1/matrices/{name}", "/v1/matrices/{matrix_id}", headers=other)
    ask("POST", "/v1/leases", json={"bytes": 1})
    tensors = [
        {"name": one, "datatype": "FP32", "shape": [1, 1], "data": [2]} for one in ("A", "B")
    ]
    infer = "/v2/models/matmul/infer"
    asked = {"inputs": tensors, "parameters": {"binary_data_output": True}}
    ask("POST", infer, "/v2/models/{model_name}/infer", json=asked,
        headers={"Accept-Encoding": "gzip"})  # fmt: skip
    ask("GET", "/healthz/ready")
    return found


def test_every_header_of_an_answer_is_described(shared_server):
    paths = shared_server.client.get("/openapi.json").json()["paths"]
    answers = send_all(shared_server)
    statuses = {answer.status_code for _, answer in answers}
    assert statuses == {200, 201, 202, 206, 304, 403, 404, 412, 416, 422}
    for path, answer in answers:
        responses = paths[path][answer.request.method.lower()]["responses"]
        described = responses[str(answer.status_code)]["headers"]
        assert all(one["description"] for one in described.values())
        sent = set(answer.headers) - FRAMING
        assert sent <= {name.lower() for name in described}, (path, answer.status_code)


def test_a_file_comes_in_the_media_type_that_is_asked_for(shared_server):
    path = f"/v1/matrices/{shared_server.upload(EYE)}/data"
    for accept, sent in (
        ("*/*", "application/x-npy"),
        ("application/octet-stream", "application/octet-stream"),
        ("application/octet-stream, application/x-npy", "application/x-npy"),
    ):
        asked = {"Accept": accept}
        assert shared_server.client.get(path, headers=asked).headers["content-type"] == sent
        product = shared_server.multiply(EYE, EYE, headers=asked)
        assert product.headers["content-type"] == sent


def test_unknown_query_fields_are_refused_with_the_known_ones(shared_server):
    name = shared_server.upload(EYE)
    for path, known in (
        ("/v1/plan?m=1&n=1&k=1&dtyp=int8", "m, n, k, dtype, "),
        ("/v1/jobs?dtyp=int8", "state, label, limit, cursor"),
        (f"/v1/matrices/{name}/data?dtyp=int8", "there are none"),
        ("/v1/me?dtyp=int8", "there are none"),
    ):
        refused = shared_server.client.get(path)
        document = expect_refusal(refused, 422, "dtyp", value="int8", limit=known)
        assert known in document["detail"]
    refused = shared_server.multiply(EYE, dtyp="int8")
    expect_refusal(refused, 422, "dtyp", limit="alpha, beta, verify, dtype")


def test_a_query_field_that_is_given_twice_is_refused(shared_server):
    client = shared_server.client
    for refused in (
        client.get("/v1/plan?m=1&n=1&k=1&m=2"),
        client.post("/v1/matmul?alpha=1&alpha=2", content=2 * encode_npy(EYE), headers=NPY),
    ):
        problem = refused.json()
        assert (refused.status_code, problem["value"]) == (422, "2")
        assert problem["limit"] == "given once: it is in the query before"


@pytest.fixture(scope="module")
def document():
    return create_app().openapi()


def list_operations(document):
    return [
        (f"{method} {path}", operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]


def test_every_operation_is_described(document):
    for name, operation in list_operations(document):
        assert operation["description"], name
        assert operation["tags"], name
        for parameter in operation.get("parameters", []):
            described = parameter.get("description") or parameter["schema"].get("description")
            assert described, (name, parameter["name"])


def test_refusals_are_problem_documents(document):
    for name, operation in list_operations(document):
        refusals = {s: r for s, r in operation["responses"].items() if s >= "400"}
        assert refusals or "/health" in name or "/metrics" in name
        for refusal in refusals.values():
            ((media_type, content),) = refusal["content"].items()
            assert media_type == "application/problem+json", name
            assert content["schema"] == {"$ref": "#/components/schemas/Problem"}, name


def test_every_operation_but_health_and_metrics_names_the_api_key(document):
    for name, operation in list_operations(document):
        is_open = "/health" in name or "/metrics" in name
        assert ("security" in operation) == (not is_open), name


def test_answers_and_bodies_have_examples(document):
    schemas = document["components"]["schemas"]
    views = ("MatrixView", "JobView", "PlanView", "DevicesView", "HealthView", "MeView")
    for name in (*views, "JobRequest", "Problem"):
        assert schemas[name]["examples"], name
