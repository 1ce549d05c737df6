"""The API's description."""

from typing import Any

import pytest

from wavetrim.service.app import create_app


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return create_app().openapi()


def list_operations(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{method} {path}", operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]


_MODEL = ("/v2/models/{model_name}", "/v2/models/{model_name}/versions/{version}")
PROTOCOL = {
    "get /v2",
    "get /v2/health/live",
    "get /v2/health/ready",
    "get /v2/models/stats",
    "post /v2/repository/index",
    *(f"get {model}{path}" for model in _MODEL for path in ("", "/ready", "/config", "/stats")),
    *(f"post {model}/infer" for model in _MODEL),
}
"""What the Open Inference Protocol has."""


def test_every_operation_of_the_api_is_there(document: dict[str, Any]) -> None:
    assert {name for name, _ in list_operations(document)} == {
        "post /v1/matrices",
        "get /v1/matrices",
        "get /v1/matrices/{matrix_id}",
        "delete /v1/matrices/{matrix_id}",
        "get /v1/matrices/{matrix_id}/data",
        "post /v1/jobs",
        "get /v1/jobs",
        "get /v1/jobs/{job_id}",
        "delete /v1/jobs/{job_id}",
        "get /v1/jobs/events",
        "get /v1/jobs/{job_id}/events",
        "get /v1/jobs/{job_id}/result",
        "post /v1/leases",
        "get /v1/leases",
        "get /v1/leases/{lease_id}",
        "delete /v1/leases/{lease_id}",
        "post /v1/matmul",
        "get /v1/plan",
        "get /v1/profile",
        "get /v1/devices",
        "get /v1/me",
        "get /healthz/live",
        "get /healthz/ready",
        "get /metrics",
        *PROTOCOL,
    }


def test_every_operation_is_described(document: dict[str, Any]) -> None:
    for name, operation in list_operations(document):
        assert operation["description"], name
        assert operation["tags"], name
        for parameter in operation.get("parameters", []):
            described = parameter.get("description") or parameter["schema"].get("description")
            assert described, (name, parameter["name"])


def test_refusals_are_problem_documents(document: dict[str, Any]) -> None:
    for name, operation in list_operations(document):
        refusals = {s: r for s, r in operation["responses"].items() if s >= "400"}
        assert refusals or "/health" in name or "/metrics" in name
        for refusal in refusals.values():
            ((media_type, content),) = refusal["content"].items()
            assert media_type == "application/problem+json", name
            assert content["schema"] == {"$ref": "#/components/schemas/Problem"}, name


def test_every_operation_but_health_and_metrics_names_the_api_key(document: dict[str, Any]) -> None:
    for name, operation in list_operations(document):
        is_open = "/health" in name or "/metrics" in name
        assert ("security" in operation) == (not is_open), name


def test_ids_are_names_and_told_apart(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, operation in list_operations(document)]
    assert len(set(ids)) == len(ids)
    assert all(one.isidentifier() for one in ids)
    assert {"matmul", "create_job", "get_matrix_data", "infer", "infer_of_version"} <= set(ids)


def test_plans_timings_and_verifications_are_typed(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for name in ("plan", "timings", "verification"):
        reference, null = schemas["JobView"]["properties"][name]["anyOf"]
        assert null == {"type": "null"}
        assert schemas[reference["$ref"].rpartition("/")[2]]["properties"]
    assert "#/components/schemas/MachineFigures" in str(
        schemas["PlanView"]["properties"]["profile"]
    )


def test_answers_and_bodies_have_examples(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    views = ("MatrixView", "JobView", "PlanView", "DevicesView", "HealthView", "MeView")
    for name in (*views, "JobRequest", "Problem"):
        assert schemas[name]["examples"], name


def test_npy_files_go_in_and_out(document: dict[str, Any]) -> None:
    paths = document["paths"]
    for path in ("/v1/matrices", "/v1/matmul"):
        content = paths[path]["post"]["requestBody"]["content"]
        assert "application/octet-stream" in content  # generators know no x-npy
    leased = paths["/v1/matmul"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert leased == {"$ref": "#/components/schemas/LeasedProduct"}
    files = ["application/x-npy", "application/octet-stream"]
    sent = paths["/v1/matrices/{matrix_id}/data"]["get"]["responses"]["200"]["content"]
    assert list(sent) == files
    computed = paths["/v1/matmul"]["post"]["responses"]["200"]["content"]
    assert list(computed) == [*files, "application/json"]
