"""A data folder that an earlier version has left keeps working.

`data/wavetrim-0.1.0.sql` is the database of a service of commit 7fdf164, stopped with one job done
and one waiting: their requests know nothing of accuracy and multiprocessors.
"""

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from tests.refusals import expect_refusal
from tests.server import RunningServer

DUMP = Path(__file__).parent / "data" / "wavetrim-0.1.0.sql"
A_ID, B_ID = "67164d18dd0f486c9ec8d27d707ef5", "fb62ad7c484f46a2bb563aca76516f"
PRODUCT_ID = "1cdb6943de7e427bacbdbe4740b3c6"
DONE, WAITING = "339d209219054e1ba62671b94abfd657", "c4a6c811ad5b42c19b1294f6eed5d46e"
A = np.arange(12, dtype=np.float32).reshape(4, 3)
B = np.arange(15, dtype=np.float32).reshape(3, 5)


def make_old(folder):
    """A data folder as the earlier version left it."""
    (folder / "matrices").mkdir(parents=True)
    with sqlite3.connect(folder / "wavetrim.db") as database:
        database.executescript(DUMP.read_text())
    database.close()
    for matrix_id, array in ((A_ID, A), (B_ID, B), (PRODUCT_ID, A @ B)):
        np.save(folder / "matrices" / f"{matrix_id}.npy", array)
    return folder


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory):
    """Today's service over such a folder."""
    with RunningServer(make_old(tmp_path_factory.mktemp("upgraded") / "old")) as running:
        yield running


def test_old_jobs_and_matrices_are_still_there(upgraded):
    job = upgraded.client.get(f"/v1/jobs/{DONE}").json()
    assert (job["state"], job["result"], job["plan"]["f"]) == ("succeeded", PRODUCT_ID, 4)
    assert (job["request"]["accuracy"], job["request"]["sms"]) == (None, None)
    assert np.array_equal(upgraded.download(f"/v1/jobs/{DONE}/result"), A @ B)
    listed = upgraded.client.get("/v1/jobs").json()["jobs"]
    assert {job["id"] for job in listed} >= {DONE, WAITING}


def test_a_job_that_waited_is_computed(upgraded):
    job = upgraded.wait_job(WAITING)
    assert (job["state"], job["error"]) == ("succeeded", None)
    assert job["request"]["kernel"] == "register"
    assert np.array_equal(upgraded.download(f"/v1/jobs/{WAITING}/result"), 2 * A @ B)


def test_a_post_that_is_retried_after_the_upgrade_gets_its_job(upgraded):
    request = {"a": A_ID, "b": B_ID, "verify": True}
    again = upgraded.client.post("/v1/jobs", json=request, headers={"Idempotency-Key": "done"})
    assert (again.status_code, again.json()["id"]) == (200, DONE)
    request["accuracy"] = "strict"
    other = upgraded.client.post("/v1/jobs", json=request, headers={"Idempotency-Key": "done"})
    expect_refusal(other, 422, "Idempotency-Key")
