"""Callers of one service, each with a key of its own."""

from contextlib import closing

import numpy as np
import pytest

from tests.command import invoke_command
from tests.processes import wait_until
from tests.server import NPY, encode_npy, open_http

OWN_KEY = "the-service's-own-key"


def manage_keys(server, *arguments):
    """Run `wavetrim keys` while a service runs; returns what it prints."""
    url = server.settings.get("database_url")
    variables = {} if url is None else {"WAVETRIM_DATABASE_URL": str(url)}
    done = invoke_command(
        "keys", *arguments, "--data-dir", server.data_dir, folder=server.data_dir.parent,
        **variables,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return done.stdout.strip()


def open_caller(server, key, socket=None):
    """A client with a key, once the service takes it."""
    client = open_http(socket or server.url, headers={"Authorization": f"Bearer {key}"})
    wait_until(lambda: client.get("/v1/devices").status_code != 401)
    return client


def make_caller_fixture(name, *options):
    """A fixture: a client of the module's `server` with a key of this name and these options."""

    @pytest.fixture(scope="module")
    def caller(server):
        with closing(open_caller(server, manage_keys(server, "add", name, *options))) as client:
            yield client

    return caller


def upload(client, array):
    """The id of an array that is stored."""
    answer = client.post("/v1/matrices", content=encode_npy(array), headers=NPY)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def store(client, size=2, **headers):
    content = encode_npy(np.ones((size, size)))
    answer = client.post("/v1/matrices", content=content, headers={**NPY, **headers})
    assert answer.is_success, answer.text
    return answer.json()


def post_job(client, a, b, key=None):
    headers = {} if key is None else {"Idempotency-Key": key}
    return client.post("/v1/jobs", json={"a": a, "b": b}, headers=headers)


def get_job(client, job_id, wait_seconds=0):
    return client.get(f"/v1/jobs/{job_id}", params={"wait_seconds": wait_seconds}).json()


def finish_job(client, posted):
    """A job as it has succeeded."""
    assert posted.is_success, posted.text
    job = get_job(client, posted.json()["id"], wait_seconds=60)
    assert job["state"] == "succeeded", job
    return job
