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
        "delete /v1/jobs",
        "get /v1/jobs/{job_id}",
        "delete /v1/jobs/{job_id}",
        "patch /v1/jobs/{job_id}",
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


def test_answers_and_bodies_have_examples(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    views = ("MatrixView", "JobView", "PlanView", "DevicesView", "HealthView", "MeView")
    for name in (*views, "JobRequest", "Problem"):
        assert schemas[name]["examples"], name
