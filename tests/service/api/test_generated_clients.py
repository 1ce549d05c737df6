"""Public generators read the OpenAPI document without a word, and what they make multiplies."""

import importlib
import io
import os
import sys

import numpy as np
import pytest

from tests.environment import ROOT
from tests.processes import execute
from tests.server import decode_npy, encode_npy

pytestmark = pytest.mark.needs("generators")

GENERATORS = ROOT / ".tools" / "generators"
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{GENERATORS / 'bin'}{os.pathsep}{os.environ['PATH']}",
    "NO_COLOR": "1",
}


def run(*command, folder):
    """What a generator says."""
    assert (GENERATORS / ".made").exists(), "run `make generators` once"
    ended = execute(command, cwd=folder, env=ENVIRONMENT)
    said = ended.stdout + ended.stderr
    assert ended.returncode == 0, said
    return said


@pytest.fixture(scope="module")
def document(server, tmp_path_factory):
    """The document, as the service sends it."""
    file = tmp_path_factory.mktemp("generated") / "openapi.json"
    file.write_text(server.client.get("/openapi.json").text, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def generated(document):
    """The name of the package that openapi-python-client has made."""
    said = run(
        "openapi-python-client", "generate", "--path", document.name, "--meta", "none",
        "--output-path", "generated_client", "--fail-on-warning", folder=document.parent,
    )  # fmt: skip
    assert "warning" not in said.lower()
    sys.path.insert(0, str(document.parent))
    yield "generated_client"
    sys.path.remove(str(document.parent))


def find(name):
    return importlib.import_module(f"generated_client.{name}")


def test_every_operation_is_generated_under_its_id(server, document, generated):
    paths = server.client.get("/openapi.json").json()["paths"]
    ids = {one["operationId"] for path in paths.values() for one in path.values()}
    assert {"matmul", "create_job", "get_matrix_data", "get_plan"} <= ids
    made = {
        file.stem
        for file in (document.parent / generated / "api").rglob("*.py")
        if file.stem != "__init__"
    }
    assert made == ids


def test_the_generated_python_client_multiplies(server, generated):
    with find("client").Client(base_url=server.url) as client:
        multiply_by(client)


def multiply_by(client):
    """Calls what a caller needs: a product in one call, and one as a job."""
    file = find("types").File
    a = np.arange(12.0).reshape(3, 4)
    b = np.arange(8.0).reshape(4, 2)

    def send(array):
        return file(payload=io.BytesIO(encode_npy(array)))

    both = file(payload=io.BytesIO(encode_npy(a) + encode_npy(b)))
    matmul = find("api.matmul.matmul")
    product = matmul.sync(client=client, body=both, f=3, verify=True)
    assert np.array_equal(decode_npy(product.payload.read()), a @ b)

    store = find("api.matrices.store_matrix")
    stored = [store.sync(client=client, body=send(one)) for one in (a, b)]
    request = find("models").JobRequest(a=stored[0].id, b=stored[1].id, verify=True)
    job = find("api.jobs.create_job").sync(client=client, body=request)
    done = find("api.jobs.get_job").sync(job.id, client=client, wait_seconds=60)
    assert done.state == "succeeded"
    assert done.plan.f == done.timings.f_actual == 3
    assert done.plan.profile.cpu.source
    assert done.timings.total_seconds > 0
    assert done.verification.passed
    result = find("api.jobs.get_job_result").sync(job.id, client=client)
    assert np.array_equal(decode_npy(result.payload.read()), a @ b)
    data = find("api.matrices.get_matrix_data")
    part = data.sync_detailed(stored[0].id, client=client, range_="bytes=0-5")
    assert (part.status_code, part.parsed.payload.read()) == (206, b"\x93NUMPY")

    refused = matmul.sync(client=client, body=send(a))
    assert isinstance(refused, find("models").Problem)
    assert (refused.status, refused.field) == (400, "body")


def test_the_generated_types_of_typescript_are_whole(document):
    said = run(
        GENERATORS / "node_modules/.bin/openapi-typescript", document.name, "--output", "api.d.ts",
        folder=document.parent,
    )  # fmt: skip
    assert "warn" not in said.lower()
    (document.parent / "use.ts").write_text(
        """import type { operations, components } from "./api";
type Job = components["schemas"]["JobView"];
export const seconds = (job: Job): number | null | undefined => job.timings?.total_seconds;
export const rows = (job: Job): number | undefined => job.plan?.f;
export type Query = NonNullable<operations["get_plan"]["parameters"]["query"]>;
export const query: Query = { m: 1, n: 2, k: 3, f: "auto" };
export type Refusal =
  operations["matmul"]["responses"][429]["content"]["application/problem+json"]["detail"];
export const detail: Refusal = "full";
""",
        encoding="utf-8",
    )
    run(
        GENERATORS / "node_modules/.bin/tsc", "--noEmit", "--strict", "--target", "es2022",
        "use.ts", folder=document.parent,
    )  # fmt: skip
