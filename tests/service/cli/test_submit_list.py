"""Lists of products, labels, priorities and expected ends at the command line.

These are facts of a service whose jobs have labels and expected ends.
"""

import json
import re

import numpy as np
import pytest

from tests.command import call_service as call
from tests.matrices import SLOW, make_matrix
from tests.processes import wait_until
from wavetrim.client import Client
from wavetrim.service.cli.exits import ExitCode


@pytest.fixture
def files(tmp_path):
    """A folder with A.npy and B.npy, of one shape, and too large to be computed at once."""
    for seed, name in enumerate("AB"):
        np.save(tmp_path / f"{name}.npy", make_matrix(400, 400, "int64", seed))
    return tmp_path


@pytest.fixture
def busy(server):
    """A client of the service, whose engine has a job that does not end meanwhile."""
    with Client(server.url) as client:
        slow = client.put(make_matrix(2 * SLOW, 2 * SLOW, "int64", 2))
        with server.engine_stopped():
            running = client.submit(slow, slow)
            wait_until(lambda: running.status().state == "running")
            yield client
            running.cancel()


def read(server, folder, *arguments):
    """What a command prints as JSON."""
    done = call(server, folder, *arguments, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_each_line_is_a_job_and_each_file_is_stored_once(server, files):
    a, b = np.load(files / "A.npy"), np.load(files / "B.npy")
    (files / "with a space.npy").write_bytes((files / "A.npy").read_bytes())
    with Client(server.url) as client:
        stored = client.put(b)
        before = len([*client.matrices()])
        lines = [
            "# products",
            "",
            "A.npy B.npy",
            f"'with a space.npy' {stored.id[:8]}  # A",
            "B.npy A.npy",
        ]
        (files / "list.txt").write_text("\n".join(lines))
        posted = call(server, files, "submit", "--list", "list.txt", "--wait")
        assert posted.exit_code == 0, posted.stderr
        results = [client.job(job).result() for job in posted.stdout.split()]
        for result, expected in zip(results, (a @ b, a @ b, b @ a), strict=True):
            np.testing.assert_array_equal(result, expected)
        assert len([*client.matrices()]) == before + 3 + len(results)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("A.npy B.npy\nA.npy\n", "list.txt, line 2 is 'A.npy'; it must be two names, of A and B"),
        ("A.npy B.npy B.npy", "line 1 is 'A.npy B.npy B.npy'; it must be two names"),
        ("A.npy 'B.npy", 'line 1 is "A.npy \'B.npy"; it must be two names'),
        ("\nA.npy missing.npy", "list.txt, line 2: B is 'missing.npy'; it must be a .npy file"),
        (
            "A.npy B.npy\nA.npy thin.npy",
            "list.txt, line 2: shape of b is (1, 1); it must be (400, N)",
        ),
        ("# nothing", "list.txt has 0 products; it must have 1 to 1000"),
        ("A.npy B.npy\n" * 1001, "list.txt has 1001 products; it must have 1 to 1000"),
    ],
)
def test_a_list_with_a_wrong_line_posts_and_stores_nothing(lines, message, server, files):
    np.save(files / "thin.npy", np.ones((1, 1), np.int64))
    (files / "list.txt").write_text(lines)
    before = server.list_matrix_files()
    refused = call(server, files, "submit", "--list", "list.txt")
    assert refused.exit_code == ExitCode.REFUSED
    assert message in refused.stderr
    assert refused.stdout == ""
    assert server.list_matrix_files() == before


def test_what_a_refused_list_has_uploaded_is_removed(server, files):
    (files / "list.txt").write_text("A.npy B.npy\nB.npy A.npy")
    before = server.list_matrix_files()
    refused = call(server, files, "submit", "--list", "list.txt", "--f", "401")
    assert refused.exit_code == ExitCode.REFUSED
    assert server.list_matrix_files() == before


def test_operands_are_named_once(server, files):
    (files / "list.txt").write_text("A.npy B.npy")
    both = call(server, files, "submit", "A.npy", "B.npy", "--list", "list.txt")
    none = call(server, files, "submit", "A.npy")
    assert (both.exit_code, none.exit_code) == (ExitCode.REFUSED, ExitCode.REFUSED)
    assert both.stderr == "wavetrim: submit takes A and B, or --list FILE, not both\n"
    assert none.stderr.startswith("wavetrim: B is missing: name two files or matrices, or --list")


def test_jobs_are_listed_and_cancelled_by_label(server, files, busy):
    (files / "list.txt").write_text("A.npy B.npy\nB.npy A.npy")
    labels = ("--label", "night run", "--label", "weights")
    posted = call(server, files, "submit", "--list", "list.txt", *labels).stdout.split()
    other = call(server, files, "submit", "A.npy", "B.npy").stdout.strip()
    found = read(server, files, "jobs", "--label", "night run")
    assert {job["id"] for job in found} == {*posted}
    assert found[0]["labels"] == ["night run", "weights"]
    shown = call(server, files, "jobs", "--label", "night run").stdout
    assert "night run" in shown
    cancelled = call(server, files, "cancel", "--label", "night run")
    assert cancelled.stdout == "cancelled 2 jobs with the label night run\n"
    assert {busy.job(job).status().state for job in posted} == {"cancelled"}
    assert busy.job(other).status().state != "cancelled"
    assert read(server, files, "cancel", "--label", "night run") == {"cancelled": 0}


def test_cancel_takes_a_job_or_a_label(server, files):
    for arguments in ([], ["1234", "--label", "x"]):
        refused = call(server, files, "cancel", *arguments)
        assert refused.exit_code == ExitCode.REFUSED
        assert refused.stderr == "wavetrim: cancel takes either a JOB or --label LABEL\n"


def test_the_priority_of_a_queued_job_is_changed(server, files, busy):
    running = next(busy.jobs())
    # It waits for its operand: a small job alone may be computed beside the large one.
    job = busy.submit(busy.job(running.id), running.document["request"]["b"]).id
    changed = call(server, files, "priority", job[:8], "--", "-7")
    assert changed.stdout == f"job {job}: queued, priority -7\n", changed.stderr
    assert busy.job(job).status().document["priority"] == -7
    busy.cancel(job)
    late = call(server, files, "priority", job, 7)
    assert late.exit_code == ExitCode.REFUSED
    assert job in late.stderr


def test_a_waiting_job_shows_its_place_its_end_and_the_reason(server, files, busy):
    _, second = (call(server, files, "submit", "A.npy", "B.npy").stdout.strip() for _ in "12")
    shown = call(server, files, "status", second).stdout
    expected = busy.job(second).status().document["expected"]
    place = r"( after \d+ others)?"  # an engine takes several small jobs at once
    assert re.search(rf"ends at \S+{place}, nine times in ten between \S+ and \S+\n", shown)
    assert expected["reason"] in re.sub(r"\s+", " ", shown)
    listed = call(server, files, "jobs").stdout
    assert re.search(rf"{second}  (queued after \d|queued|running)", listed)
    assert max(map(len, listed.splitlines())) <= 80


def test_a_watched_list_ends_with_its_jobs(server, files):
    call(server, files, "submit", "A.npy", "B.npy", "--label", "watched")
    watched = call(server, files, "jobs", "--label", "watched", "--watch")
    assert watched.exit_code == 0, watched.stderr
    assert "succeeded" in watched.stdout
    (job,) = read(server, files, "jobs", "--label", "watched", "--watch")
    assert job["state"] == "succeeded"


def test_a_deadline_that_cannot_be_met_is_refused_with_the_expected_end(server, files, busy):
    before = {matrix.id for matrix in busy.matrices()}
    refused = call(server, files, "submit", "A.npy", "B.npy", "--deadline", "2020-01-01T12:00")
    assert refused.exit_code == ExitCode.REFUSED
    assert "deadline" in refused.stderr
    assert {matrix.id for matrix in busy.matrices()} == before
    odd = call(server, files, "submit", "A.npy", "B.npy", "--deadline", "soon")
    assert "--deadline is 'soon'; it must be a time such as" in odd.stderr
    easy = read(server, files, "submit", "A.npy", "B.npy", "--deadline", "2999-01-01T12:00+02:00")
    assert easy["request"]["deadline"].startswith("2999-01-01T10:00:00")
