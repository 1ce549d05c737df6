"""The routes of jobs, over HTTP on a real server."""

import json

import numpy as np
import pytest

from tests.matrices import make_matrix
from tests.processes import wait_until
from tests.refusals import expect_refusal
from tests.server import decode_npy
from wavetrim.service.api.jobs.job_schemas import JobView

JSON = {"Content-Type": "application/json"}
VIEW = {
    "id", "state", "progress", "rows_done", "priority", "labels", "request", "plan", "timings",
    "verification", "result", "error", "attempts", "cancel_requested", "created_at",
    "started_at", "finished_at", "owner", "expected",
}  # fmt: skip


@pytest.fixture(scope="module")
def operands(server):
    """Ids of small matrices of several shapes and element types."""
    return {
        "tall": server.upload(make_matrix(7, 3, "float32", seed=1)),
        "wide": server.upload(make_matrix(3, 7, "float32", seed=2)),
        "double": server.upload(make_matrix(3, 7, "float64", seed=3)),
        "whole": server.upload(make_matrix(5, 5, "int16", seed=4)),
        "slow": server.upload(make_matrix(2000, 2000, "int64", seed=5)),
    }


def post(running, key=None, **request):
    headers = {} if key is None else {"Idempotency-Key": key}
    return running.client.post("/v1/jobs", json=request, headers=headers)


def wait_begun(running, job_id):
    """The job once some of it is done."""

    def look():
        job = running.client.get(f"/v1/jobs/{job_id}").json()
        return job if job["progress"] > 0 else None

    return wait_until(look, 60)


def expect_problem(response, status, field, *words):
    """The response is a problem document that names the field and says these words."""
    problem = expect_refusal(response, status, field)
    assert all(word in problem["detail"] for word in words), problem


def test_a_posted_job_is_computed_and_its_product_fetched(server):
    a, b = make_matrix(64, 40, "float32", seed=1), make_matrix(40, 90, "float32", seed=2)
    posted = post(server, a=server.upload(a), b=server.upload(b), verify=True)
    assert posted.status_code == 202
    job = posted.json()
    assert set(job) == VIEW
    assert posted.headers["Location"] == f"/v1/jobs/{job['id']}"
    assert job["request"] == {
        "a": job["request"]["a"], "b": job["request"]["b"], "c": None, "alpha": 1.0, "beta": 0.0,
        "kernel": "auto", "tile": None, "f": "auto", "accuracy": None, "sms": None,
        "devices": None, "verify": True, "storage": "disk", "priority": 0, "labels": [],
        "deadline": None, "timeout_seconds": None,
    }  # fmt: skip
    done = server.wait_job(job["id"])
    assert (done["state"], done["progress"], done["error"]) == ("succeeded", 1.0, None)
    assert done["plan"]["f"] == 64
    assert done["plan"]["predicted"]["total_seconds"] > 0
    assert done["timings"]["total_seconds"] > 0
    assert done["verification"]["passed"]
    assert done["created_at"] <= done["started_at"] <= done["finished_at"]
    assert done["created_at"].endswith("Z")
    product = server.download(f"/v1/jobs/{job['id']}/result")
    assert np.allclose(product, a @ b, atol=1e-4)
    assert np.array_equal(server.download(f"/v1/matrices/{done['result']}/data"), product)


def test_options_are_kept_in_the_job(server, operands):
    job = post(server, a=operands["tall"], b=operands["wide"], accuracy="float32", f=7).json()
    assert (job["request"]["accuracy"], job["request"]["f"]) == ("float32", 7)
    done = server.wait_job(job["id"])
    assert done["state"] == "succeeded"
    assert (done["plan"]["accuracy"], done["plan"]["sms"]) == (None, None)
    assert done["plan"]["no_gpu_reason"].startswith("there is no GPU")


def test_a_part_of_the_result_can_be_asked_for(server, operands):
    job = post(server, a=operands["tall"], b=operands["wide"]).json()
    server.wait_job(job["id"])
    path = f"/v1/jobs/{job['id']}/result"
    whole = server.client.get(path)
    part = server.client.get(path, headers={"Range": "bytes=128-"})
    assert part.status_code == 206
    assert part.content == whole.content[128:]
    assert server.client.head(path).headers["Content-Length"] == str(len(whole.content))
    assert decode_npy(whole.content).shape == (7, 7)


def test_a_running_job_shows_progress_and_has_no_result_yet(server, operands):
    job = post(server, a=operands["slow"], b=operands["slow"]).json()
    running = wait_begun(server, job["id"])
    assert running["state"] == "running"
    assert 0 < running["progress"] < 1
    assert running["plan"]["f"] == 2000
    response = server.client.get(f"/v1/jobs/{job['id']}/result")
    expect_problem(response, 409, "state", "is running", "must be succeeded")
    asked = server.client.delete(f"/v1/jobs/{job['id']}")
    assert (asked.status_code, asked.json()["cancel_requested"]) == (202, True)
    done = server.wait_job(job["id"])
    assert (done["state"], done["result"], done["error"]) == ("cancelled", None, None)
    assert server.client.delete(f"/v1/jobs/{job['id']}").status_code == 200
    expect_problem(server.client.get(f"/v1/jobs/{job['id']}/result"), 409, "state", "is cancelled")


def test_an_operand_of_an_unfinished_job_is_not_deleted(server, operands):
    running = post(server, a=operands["slow"], b=operands["slow"]).json()
    wait_begun(server, running["id"])
    ones = server.upload(np.ones((3, 3), np.float32)), server.upload(np.ones((3, 3), np.float32))
    added = server.upload(np.ones((3, 3), np.float32))
    queued = post(server, a=ones[0], b=ones[1], c=added, beta=1).json()
    for matrix, job in (
        (operands["slow"], running), (ones[0], queued), (ones[1], queued), (added, queued),
    ):  # fmt: skip
        expect_problem(server.client.delete(f"/v1/matrices/{matrix}"), 409, "id", job["id"])
    for job in (queued, running):
        server.client.delete(f"/v1/jobs/{job['id']}")
        server.wait_job(job["id"])
    for matrix in (*ones, added):
        assert server.client.delete(f"/v1/matrices/{matrix}").status_code == 204


def test_a_succeeded_job_is_not_cancelled(server, operands):
    job = post(server, a=operands["tall"], b=operands["wide"]).json()
    server.wait_job(job["id"])
    response = server.client.delete(f"/v1/jobs/{job['id']}")
    expect_problem(response, 409, "state", "is succeeded", "queued or running")


@pytest.mark.parametrize(
    ("options", "status", "field", "words"),
    [
        ({"a": "none"}, 404, "a", ["'none'", "does not exist"]),
        ({"b": "none"}, 404, "b", ["'none'"]),
        ({"c": "none"}, 404, "c", ["'none'"]),
        ({"b": "tall"}, 422, "shape of b", ["(7, 3)", "(3, N)"]),
        ({"c": "wide"}, 422, "shape of c", ["(3, 7)", "(7, 7)"]),
        ({"b": "double"}, 422, "dtype of b", ["float64", "float32"]),
        ({"beta": 1}, 422, "c", ["beta is 1.0"]),
        ({"a": "whole", "b": "whole", "alpha": 1.5}, 422, "alpha", ["1.5", "whole number"]),
        ({"a": "whole", "b": "whole", "alpha": 2**53 + 1}, 422, "alpha", [f"below {2**53}"]),
        ({"a": "whole", "b": "whole", "c": "whole", "beta": -(2**53)}, 422, "beta", [f"{2**53}"]),
        ({"alpha": 1e39}, 422, "alpha", ["1e+39", "float32"]),
        ({"f": 8}, 422, "f", ["8", "7"]),
        ({"f": -1}, 422, "f", ["-1"]),
        ({"f": True}, 422, "f", ["True"]),
        ({"f": "all"}, 422, "f", ["'all'"]),
        ({"kernel": "tensor", "accuracy": "strict"}, 422, "kernel", ["'tensor'", "register"]),
        ({"sms": 0}, 422, "sms", ["0", "1"]),
        ({"sms": 1}, 422, "sms", ["no GPU"]),
        ({"sms": "1"}, 422, "sms", ["'1'"]),
        ({"sms": True}, 422, "sms", ["True"]),
        ({"alpha": "2"}, 422, "alpha", ["'2'", "number"]),
        ({"alpha": None}, 422, "alpha", ["None"]),
        ({"verify": 1}, 422, "verify", ["1"]),
        ({"priority": 1001}, 422, "priority", ["1001", "1000"]),
        ({"colour": "red"}, 422, "colour", ["'red'"]),
        ({"a": "../../etc/passwd"}, 422, "a", ["../../etc/passwd"]),
        ({"a": "x" * 41}, 422, "a", ["x" * 41]),
        ({"a": None}, 422, "a", ["None"]),
        ({"a": "nul\x00"}, 422, "a", []),
    ],
)
def test_a_request_that_cannot_be_met_is_refused_by_field(
    server, operands, options, status, field, words
):
    request = {"a": "tall", "b": "wide"} | options
    for name in ("a", "b", "c"):
        if name in request:
            request[name] = operands.get(request[name], request[name])
    newest = server.client.get("/v1/jobs?limit=1").json()["jobs"]
    expect_problem(post(server, **request), status, field, *words)
    assert server.client.get("/v1/jobs?limit=1").json()["jobs"] == newest, "no job is made"


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_factors_are_finite(server, operands, value):
    body = json.dumps({"a": operands["tall"], "b": operands["wide"]})
    content = body.replace("}", f', "alpha": {value}}}')
    response = server.client.post("/v1/jobs", content=content, headers=JSON)
    expect_problem(response, 422, "alpha", "finite")


@pytest.mark.parametrize("body", [b"", b"[]", b"3", b"{}"])
def test_a_body_that_is_no_request_is_a_problem(server, body):
    response = server.client.post("/v1/jobs", content=body, headers=JSON)
    expect_refusal(response, 422)


@pytest.mark.parametrize(
    "body",
    [
        *(b"{", b'{"a": ', b"\xff\xfe{", b'{"a": "\xff"}', b"[" * 20_000),
        *(b'{"a": ' + b"9" * 5000 + b"}", b'{"a": "\\ud800", "b": "x"}', b'{"\\udfff": 1}'),
    ],
)
def test_a_body_that_is_no_json_is_a_bad_request(server, body):
    response = server.client.post("/v1/jobs", content=body, headers=JSON)
    expect_problem(response, 400, "body", "JSON (")
    assert response.json()["type"].endswith("json-malformed")


def test_a_document_that_differs_from_its_digest_is_refused(server):
    headers = JSON | {"Content-Digest": f"sha-256=:{'A' * 43}=:"}
    response = server.client.post("/v1/jobs", content=b"{}", headers=headers)
    expect_problem(response, 400, "Content-Digest")


@pytest.mark.parametrize("job_id", ["0" * 32, "nothing", "%00", "a%2Fb", "é"])
def test_an_unknown_job_is_not_found(server, job_id):
    for method in ("GET", "DELETE"):
        assert server.client.request(method, f"/v1/jobs/{job_id}").status_code == 404
    assert server.client.get(f"/v1/jobs/{job_id}/result").status_code == 404


def test_a_retried_post_gets_the_first_job(server, operands):
    request = {"a": operands["tall"], "b": operands["wide"]}
    first = post(server, key="one", **request)
    again = post(server, key="one", **request)
    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json()["id"] == first.json()["id"]
    assert again.headers["Location"] == first.headers["Location"]
    other = post(server, key="one", **request, alpha=2)
    expect_problem(other, 422, "Idempotency-Key", first.json()["id"])
    assert post(server, key="two", **request).json()["id"] != first.json()["id"]


@pytest.mark.parametrize("key", ["", "k" * 256, "tab\tinside"])
def test_a_key_that_cannot_be_kept_is_refused(server, operands, key):
    response = post(server, key=key, a=operands["tall"], b=operands["wide"])
    expect_problem(response, 422, "Idempotency-Key", "1 to 255")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"state": "happy"}, "state"),
        ({"limit": "0"}, "limit"),
        ({"limit": "201"}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"cursor": "nonsense"}, "cursor"),
        ({"cursor": ""}, "cursor"),
        ({"cursor": "x" * 65}, "cursor"),
    ],
)
def test_a_page_that_cannot_be_shown_is_refused(server, query, field):
    expect_problem(server.client.get("/v1/jobs", params=query), 422, field)


def test_the_description_of_the_api_has_examples_that_hold(server):
    document = server.client.get("/openapi.json").json()
    paths = document["paths"]
    assert {"get", "post"} <= set(paths["/v1/jobs"])
    assert {"get", "delete"} <= set(paths["/v1/jobs/{job_id}"])
    assert set(paths["/v1/jobs"]["post"]["responses"]) >= {
        "200", "202", "400", "401", "404", "422", "429", "503",
    }  # fmt: skip
    for example in document["components"]["schemas"]["JobRequest"]["examples"]:
        response = post(server, **example)
        expect_problem(response, 404, "a", "does not exist")
    for example in document["components"]["schemas"]["JobView"]["examples"]:
        assert JobView.model_validate(example).model_dump(mode="json")["id"] == example["id"]
        assert set(example) == VIEW
