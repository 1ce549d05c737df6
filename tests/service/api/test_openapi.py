"""The API's description."""

import pytest

from wavetrim.service.app import create_app


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
