"""Jobs: posted, awaited, cancelled, interrupted."""

import threading

import numpy as np
import pytest

from tests.matrices import SLOW, assert_product, make_matrix
from tests.processes import wait_until
from wavetrim.client import JobStatus, JobUnsuccessful, ServiceBusy, Unauthorized, WaitTimeout


def test_a_job_computes_its_product_and_reports_it(client, tmp_path):
    a, b, c = (make_matrix(*shape, "float32", 3) for shape in ((97, 65), (65, 33), (97, 33)))
    np.save(tmp_path / "B.npy", b)
    uploads: list[str] = []
    job = client.submit(
        client.put(a),
        tmp_path / "B.npy",
        c=c,
        alpha=0.5,
        beta=-2.0,
        verify=True,
        on_upload=lambda name, sent, total: uploads.append(name),
    )
    assert set(uploads) == {"b", "c"}
    seen: list[float] = []
    status = job.wait(progress=lambda status: seen.append(status.progress))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert status.plan["f"] == 97
    assert status.timings["total_seconds"] > 0
    assert status.verification["passed"]
    assert job.status() == status
    assert_product(job.result(), a, b, c, alpha=0.5, beta=-2.0)
    out = np.zeros((97, 33), np.float32)
    assert job.result(out=out) is out
    assert job.download(tmp_path / "C.npy") == (tmp_path / "C.npy").stat().st_size
    np.testing.assert_array_equal(np.load(tmp_path / "C.npy"), out)


def test_options_may_be_scalars_of_numpys(client):
    a = make_matrix(40, 40, "float64", 5)
    options = {
        "alpha": np.float32(0.5), "beta": np.array(2), "f": np.int64(40), "verify": np.True_,
        "accuracy": np.str_("library"),
    }  # fmt: skip
    job = client.submit(a, a, c=a, priority=np.int8(3), **options)
    assert_product(job.result(), a, a, a, alpha=0.5, beta=2)
    asked = job.status().document["request"]
    assert {name: asked[name] for name in options} == options
    assert asked["priority"] == 3
    assert_product(client.matmul(a, a, c=a, **options), a, a, a, alpha=0.5, beta=2)
    assert client.plan(64, 64, 64, f=np.uint8(7), device="T4")["f"] == 7


def test_arrays_are_promoted_as_numpy_promotes_them(client):
    product = client.submit([[1, 2], [3, 4]], np.eye(2, dtype=np.float32)).result()
    assert product.dtype == np.float64
    np.testing.assert_array_equal(product, [[1.0, 2.0], [3.0, 4.0]])


def test_a_cancelled_job_ends_the_wait(client, shared_server):
    a = client.put(make_matrix(40, 40, "float64", 9))
    with shared_server.engine_stopped():
        job = client.submit(client.submit(a, a, verify=True), a)
        assert client.cancel(job.id).document["cancel_requested"]
    with pytest.raises(JobUnsuccessful, match="cancelled") as ended:
        job.wait()
    assert (ended.value.job_id, ended.value.state) == (job.id, "cancelled")
    assert job.cancel().state == "cancelled", "cancelling twice is cancelling"


def test_a_wait_can_end_before_its_job(client, shared_server):
    a = client.put(make_matrix(40, 40, "float64", 10))
    with shared_server.engine_stopped():
        job = client.submit(a, a, verify=True)
        with pytest.raises(WaitTimeout, match=job.id):
            job.wait(timeout_seconds=0.05)
        with pytest.raises(WaitTimeout, match=job.id):
            job.result(timeout_seconds=0.0)
    assert job.wait().state == "succeeded"


def test_jobs_are_listed_page_by_page(client):
    matrix = client.put(make_matrix(4, 4, "float32", 11))
    posted = [client.submit(matrix, matrix).wait().id for _ in range(5)]
    listed = [job.id for job in client.jobs(state="succeeded", page=2)]
    assert listed[:5] == posted[::-1]
    assert len(listed) == len(set(listed))
    assert isinstance(next(iter(client.jobs())), JobStatus)


def test_the_api_key_is_sent_and_a_full_queue_is_busy(connect, start_server):
    guarded = start_server(api_key="a-key-of-these-tests", max_queued_jobs=1)
    with pytest.raises(Unauthorized) as refused:
        next(iter(connect(guarded.url).jobs()))
    assert refused.value.status == 401
    client = connect(guarded.url, api_key="a-key-of-these-tests")
    matrix = client.put(make_matrix(SLOW, SLOW, "int64", 12))  # nothing else is begun with it
    guarded.wait_ready()
    with guarded.engine_stopped():
        running = client.submit(matrix, matrix)
        wait_until(lambda: running.status().state == "running")
        client.submit(matrix, matrix)
        with pytest.raises(ServiceBusy) as busy:
            client.submit(matrix, matrix)
    assert busy.value.status == 429
    assert busy.value.retry_after_seconds is not None


def test_a_wait_outlasts_a_restart(connect, start_server):
    restarted = start_server()
    restarted.wait_ready()
    client = connect(restarted.url)
    matrix = client.put(make_matrix(40, 40, "float64", 13))
    restarter: list[threading.Thread] = []

    def kill_once(status):
        if not restarter and status.state == "running":
            restarted.kill()
            restarter.append(threading.Thread(target=restarted.restart))
            restarter[0].start()

    with restarted.engine_stopped():
        job = client.submit(matrix, matrix, verify=True)
        assert job.wait(progress=kill_once).state == "succeeded"
    restarter[0].join()


def test_an_error_during_a_submit_leaves_no_matrix_behind(connect, server, tmp_path):
    before = server.list_matrix_files()
    client = connect(server.url)
    with pytest.raises(FileNotFoundError):
        client.submit(np.eye(4), tmp_path / "missing.npy")

    def fail(name, sent, total):
        if name == "b":
            raise RuntimeError("the caller's own")

    with pytest.raises(RuntimeError, match="the caller's own"):
        client.submit(np.eye(4), np.eye(4), on_upload=fail)
    wait_until(lambda: server.list_matrix_files() == before)  # it notices the broken upload later
