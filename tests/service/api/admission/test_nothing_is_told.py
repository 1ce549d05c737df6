"""What no caller, and no other process, learns."""

import json
from pathlib import Path

import httpx
import numpy as np

from tests.service.tenants.tenants import OWN_KEY
from wavetrim.service.cursor import decode_mark


def test_the_engines_environment_holds_no_key_and_no_password(start_server):
    secret = "postgres-password-of-this-test"
    server = start_server(api_key=OWN_KEY, prefix=("env", f"PGPASSWORD={secret}"))
    environment = Path(f"/proc/{server.find_engine()}/environ").read_bytes()
    assert b"PATH=" in environment
    for word in (OWN_KEY.encode(), secret.encode(), b"WAVETRIM_"):
        assert word not in environment


def test_every_answer_forbids_browsers_to_guess_its_type(shared_server):
    for path in ("/", "/healthz/live", "/openapi.json", "/v1/jobs", "/v1/none", "/v2", "/metrics"):
        answer = httpx.get(f"{shared_server.url}{path}", timeout=60)
        assert answer.headers.get_list("x-content-type-options") == ["nosniff"], path
    with shared_server.client.stream("GET", "/v1/jobs/events") as stream:
        assert stream.headers["x-content-type-options"] == "nosniff"
    many = {f"X-{i}": "1" for i in range(120)}
    refused = httpx.get(f"{shared_server.url}/healthz/live", headers=many)
    assert (refused.status_code, refused.headers["x-content-type-options"]) == (431, "nosniff")


def test_a_jobs_cursor_holds_no_count_of_all_jobs(shared_server):
    operand = shared_server.upload(np.eye(2))
    made = [shared_server.post_job(operand, operand) for _ in range(2)]
    page = shared_server.client.get("/v1/jobs?limit=1").json()
    assert decode_mark(page["next_cursor"], r"(.*)")[1] == f"before:{made[1]}"
    rest = shared_server.client.get(f"/v1/jobs?limit=1&cursor={page['next_cursor']}").json()
    assert rest["jobs"][0]["id"] == made[0]
    assert json.dumps(rest).count("sequence") == 0
