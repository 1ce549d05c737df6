"""`wavetrim submit`, `status` and `fetch` against a real service."""

import json
import time

import numpy as np
import pytest

from tests.command import call_service as call
from tests.command import start_command
from tests.matrices import SLOW, assert_product, make_matrix
from wavetrim.client import Client
from wavetrim.scheduler.errors import FieldError
from wavetrim.service.cli.client import find_id
from wavetrim.service.cli.exits import ExitCode


def submit(server, folder, *arguments):
    """Post a job; its id is all that standard output holds."""
    posted = call(server, folder, "submit", *arguments)
    assert posted.exit_code == 0, posted.stderr
    (job_id,) = posted.stdout.split()
    return job_id


def test_a_product_goes_there_and_back(server, tmp_path):
    a, b, c = (make_matrix(*shape, "float64", 0) for shape in ((31, 20), (20, 11), (31, 11)))
    for name, array in (("A", a), ("B", b), ("C0", c)):
        np.save(tmp_path / f"{name}.npy", array)
    factors = ["--c", "C0.npy", "--alpha", "2", "--beta", "0.5", "--verify"]
    factors += ["--accuracy", "strict"]
    job = submit(server, tmp_path, "A.npy", "B.npy", *factors)
    fetched = call(server, tmp_path, "fetch", job, "-o", "C.npy", "--wait")
    assert fetched.exit_code == 0, fetched.stderr
    assert "31 of 31" in fetched.stderr
    assert "verification passed" in fetched.stderr
    assert_product(np.load(tmp_path / "C.npy"), a, b, c, alpha=2.0, beta=0.5)
    assert {path.name for path in tmp_path.iterdir()} == {"A.npy", "B.npy", "C0.npy", "C.npy"}


def test_a_result_is_the_next_operand_and_a_beginning_of_an_id_is_enough(server, tmp_path):
    a = make_matrix(12, 12, "int64", 1)
    np.save(tmp_path / "A.npy", a)
    first = submit(server, tmp_path, "A.npy", "A.npy", "--storage", "memory", "--wait")
    shown = json.loads(call(server, tmp_path, "status", first[:8], "--json").stdout)
    result = shown["result"]
    second = submit(server, tmp_path, result[:8], "A.npy")
    fetched = call(server, tmp_path, "fetch", second[:8], "-o", "C.npy", "--wait")
    assert fetched.exit_code == 0, fetched.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "C.npy"), a @ a @ a)
    done = call(server, tmp_path, "download", result[:8])
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / f"{result}.npy").is_file()
    assert call(server, tmp_path, "rm", result[:8]).exit_code == 0
    assert call(server, tmp_path, "rm", result[:8]).exit_code == ExitCode.REFUSED
    with pytest.raises(FieldError, match="of one id, not of abcd1 and abcd2"):
        find_id("JOB", "abcd", iter(["abcd1", "x", "abcd2"]))


def test_status_lists_jobs_and_shows_one(server, tmp_path):
    np.save(tmp_path / "A.npy", make_matrix(6, 6, "float32", 2))
    job = submit(server, tmp_path, "A.npy", "A.npy", "--wait")
    listed = call(server, tmp_path, "status", "--limit", 1)
    assert job in listed.stdout
    assert "succeeded" in listed.stdout
    assert max(map(len, listed.stdout.splitlines())) <= 80
    shown = call(server, tmp_path, "status", job)
    assert f"job {job}: succeeded" in shown.stdout
    assert "6 of 6" in shown.stdout
    assert "predicted/measured" in shown.stdout
    latest = call(server, tmp_path, "status", "--limit", 1, "--json")
    assert [each["id"] for each in json.loads(latest.stdout)] == [job]
    assert call(server, tmp_path, "status", "--state", "failed").stdout == "no jobs\n"


def test_refusals_end_with_2(server, tmp_path):
    np.save(tmp_path / "A.npy", make_matrix(3, 4, "float32", 3))
    for arguments, message in (
        (["submit", "A.npy", "A.npy"], "(3, 4)"),
        (["submit", "A.npy", "missing.npy"], "B is 'missing.npy'; it must be a .npy file"),
        (["submit", "A.npy", "0123456789abcdef"], "0123456789abcdef"),
        (["submit", "A.npy", "A.npy", "--beta", "inf"], "beta is inf; it must be a finite"),
        (["status", "nothing"], "'nothing'"),
        (["status", "--state", "odd"], "odd"),
        (["fetch", "nothing", "-o", "C.npy"], "'nothing'"),
        (["status", "--url", "localhost"], "--url is 'localhost'"),
    ):
        refused = call(server, tmp_path, *arguments)
        assert refused.exit_code == ExitCode.REFUSED, arguments
        assert message in refused.stderr
        assert "Traceback" not in refused.stderr
    assert not (tmp_path / "C.npy").exists()


def test_a_job_without_a_product_ends_with_5(server, tmp_path):
    np.save(tmp_path / "A.npy", make_matrix(SLOW, SLOW, "int64", 5))
    with Client(server.url) as client, server.engine_stopped():
        waits = submit(server, tmp_path, "A.npy", "A.npy")
        job = client.submit(client.job(waits), client.job(waits)).id
        client.cancel(job)
    waited = call(server, tmp_path, "fetch", job, "-o", "C.npy", "--wait")
    assert waited.exit_code == ExitCode.JOB_FAILED
    assert f"job {job} cancelled" in waited.stderr
    assert not (tmp_path / "C.npy").exists()


def test_ctrl_c_leaves_the_job_going(server, tmp_path):
    np.save(tmp_path / "A.npy", make_matrix(SLOW, SLOW, "int64", 6))
    arguments = ["submit", "A.npy", "A.npy", "--wait"]
    with (
        server.engine_stopped(),
        start_command(*arguments, folder=tmp_path, WAVETRIM_URL=server.url) as process,
    ):
        job = process.stdout.readline().strip()
        time.sleep(0.1)
        _, told = process.interrupt()
    assert f"wavetrim status {job}" in told
    with Client(server.url) as client:
        assert client.job(job).wait().state == "succeeded"
