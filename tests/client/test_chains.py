"""Many jobs: lists, products in order, jobs as operands, labels, priorities, ends, stacks."""

import itertools
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from tests.matrices import assert_product, make_matrix
from tests.processes import wait_until
from wavetrim.client import Client, Expected, JobUnsuccessful, ServiceRefused, WaitTimeout

ARRAYS = [make_matrix(40, 40, "float64", seed) for seed in range(8)]
PAIRS = list(itertools.pairwise(ARRAYS))


@pytest.fixture(autouse=True)
def idle(shared_server):
    """Earlier tests' jobs have ended, so that no results come while a test counts matrices."""
    with Client(shared_server.url) as client:
        for state in ("queued", "running"):
            wait_until(lambda state=state: not any(client.jobs(state=state)))


@pytest.fixture
def waits(client, shared_server):
    """A job that does not end during the test, and so no job that needs its product begins."""
    with shared_server.engine_stopped():
        yield client.submit(*PAIRS[0], verify=True)


def list_ids(client):
    return {matrix.id for matrix in client.matrices()}


def test_many_products_are_posted_as_one_list(client, tmp_path):
    np.save(tmp_path / "A.npy", ARRAYS[0])
    stored = client.put(ARRAYS[1])
    before = list_ids(client)
    file = tmp_path / "A.npy"
    jobs = client.submit_many([(file, stored), (file, ARRAYS[2]), (stored.id, ARRAYS[2])], alpha=2)
    assert len(list_ids(client) - before) <= 2 + len(jobs), "what two products have is sent once"
    pairs = [(ARRAYS[0], ARRAYS[1]), (ARRAYS[0], ARRAYS[2]), (ARRAYS[1], ARRAYS[2])]
    for job, (a, b) in zip(jobs, pairs, strict=True):
        assert_product(job.result(), a, b, alpha=2)
    assert client.submit_many([]) == []


def test_a_list_may_have_a_c_each_and_a_key(client):
    a = client.put(ARRAYS[0])
    jobs = client.submit_many([(a, a, ARRAYS[1]), (a, a, ARRAYS[2])], beta=1.0)
    for job, c in zip(jobs, ARRAYS[1:], strict=False):
        assert_product(job.result(), ARRAYS[0], ARRAYS[0], c, beta=1.0)
    key = f"list of {a.id}"
    first, again = (client.submit_many([(a, a), (a, a)], idempotency_key=key) for _ in range(2))
    assert [job.id for job in first] == [job.id for job in again]


def test_a_refused_list_makes_no_job_and_leaves_no_matrix(client):
    before, jobs = list_ids(client), {job.id for job in client.jobs()}
    with pytest.raises(ServiceRefused, match="f is 41"):
        client.submit_many([(ARRAYS[0], ARRAYS[1]), (ARRAYS[1], ARRAYS[2])], f=41)
    with pytest.raises(ValueError, match="b has 40 rows; it must have 20"):
        client.submit_many([(ARRAYS[0], ARRAYS[1]), (ARRAYS[0][:, :20], ARRAYS[1])])
    assert list_ids(client) == before
    assert {job.id for job in client.jobs()} == jobs


@pytest.mark.parametrize("window", [1, 3, 64])
def test_map_gives_products_in_order_and_leaves_nothing(client, window):
    before = list_ids(client)
    products = [*client.map(PAIRS, window=window)]
    for product, (a, b) in zip(products, PAIRS, strict=True):
        assert_product(product, a, b)
    assert list_ids(client) == before
    assert [*client.map([])] == []


def test_map_reads_no_more_than_its_window(shared_server):
    read = []
    with Client(shared_server.url) as client:
        pairs = (read.append(a) or (a, a) for a in ARRAYS)
        products = client.map(pairs, window=2)
        assert_product(next(products), ARRAYS[0], ARRAYS[0])
        assert len(read) == 2
        assert_product(next(products), ARRAYS[1], ARRAYS[1])
        products.close()


def test_map_that_is_left_cancels_its_jobs(shared_server):
    small = np.eye(2)  # the service computes it
    with Client(shared_server.url) as client, shared_server.engine_stopped():
        waits = client.submit(ARRAYS[0], ARRAYS[0], verify=True)
        before, jobs = list_ids(client), {job.id for job in client.jobs()}
        products = client.map([(small, small), (waits, ARRAYS[1]), (waits, ARRAYS[2])])
        next(products)
        products.close()
        states = [job.state for job in client.jobs() if job.id not in jobs]
        assert sorted(states) == ["cancelled", "cancelled", "succeeded"]
        wait_until(lambda: list_ids(client) == before)


def test_map_raises_what_a_job_has_failed_with(client):
    before = list_ids(client)
    with pytest.raises(ServiceRefused, match="f is 41"):
        [*client.map(PAIRS, f=41)]
    with pytest.raises(ValueError, match="window is 0; it must be at least 1"):
        [*client.map(PAIRS, window=0)]
    assert list_ids(client) == before


def test_jobs_are_given_as_they_end(client):
    jobs = client.submit_many(PAIRS)
    for _ in range(3):  # each begins when the one before has ended
        jobs.append(client.submit(jobs[-1], ARRAYS[0]))
    chain = [job.id for job in jobs[-4:]]
    given = [job.id for job in client.as_completed(reversed(jobs))]
    assert sorted(given) == sorted(job.id for job in jobs)
    assert [job for job in given if job in chain] == chain
    assert [*client.as_completed([])] == []


def test_a_failed_job_is_given_too_and_a_wait_may_end_before(client, waits):
    jobs = [client.submit(waits, waits) for _ in range(2)]
    with pytest.raises(WaitTimeout, match="2 jobs are not finished after"):
        [*client.as_completed(jobs, timeout_seconds=0.05)]
    for job in jobs:
        job.cancel()
    for job in client.as_completed(jobs):
        with pytest.raises(JobUnsuccessful, match="cancelled"):
            job.result()


def test_a_job_may_be_the_operand_of_another(client):
    a = client.put(make_matrix(20, 20, "int32", 4))
    square = client.submit(a, a)
    cube = client.submit(square, a)
    whole = client.get(a)
    np.testing.assert_array_equal(cube.result(), whole @ whole @ whole)
    (total,) = client.submit_many([(square, square)])
    np.testing.assert_array_equal(total.result(), whole @ whole @ whole @ whole)


def test_jobs_are_listed_and_cancelled_by_their_labels(client, waits):
    mine = f"of {waits.id}"
    jobs = [client.submit(waits, waits, labels=[mine, name]) for name in ("one", "two", "two")]
    assert jobs[0].status().labels == [mine, "one"]
    assert [job.id for job in client.jobs(label=mine)] == [job.id for job in reversed(jobs)]
    assert [job.id for job in client.jobs(label=[mine, "one"])] == [jobs[0].id]
    assert client.cancel_labelled([mine, "two"]) == 2
    assert client.cancel_labelled([mine, "one"]) == 1
    assert client.cancel_labelled(mine) == 0
    for job in jobs:
        with pytest.raises(JobUnsuccessful, match="cancelled"):
            job.wait()


def test_the_priority_of_a_queued_job_is_changed(client, waits):
    job = client.submit(waits, waits)
    assert job.set_priority(np.int16(7)).document["priority"] == 7
    assert job.status().document["priority"] == 7
    job.cancel()
    with pytest.raises(ServiceRefused) as refused:
        job.set_priority(8)
    assert refused.value.status == 409


def test_a_job_says_when_it_is_expected_to_end(client, shared_server, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # the bar is drawn while the job runs, too
    slow = client.put(make_matrix(400, 400, "int64", 8))
    with shared_server.engine_stopped():
        jobs = [client.submit(slow, slow) for _ in range(3)]
        for job in jobs:
            found = job.expected
            assert isinstance(found, Expected)
            assert found.starts_between[0] <= found.starts_at <= found.starts_between[1]
            assert found.ends_between[0] <= found.ends_at <= found.ends_between[1]
            assert found.reason
        assert jobs[2].expected.position >= 1
        assert jobs[2].expected.ends_at > jobs[0].expected.ends_at
        with pytest.raises(WaitTimeout):
            jobs[2].wait(progress=True, timeout_seconds=0.2)
        assert "ends at" in capsys.readouterr().err
    jobs[2].wait(progress=True)
    assert jobs[2].expected is None
    assert jobs[0].status().expected is None


def test_a_deadline_that_cannot_be_met_is_refused(client):
    past = datetime.now(UTC) - timedelta(seconds=1)
    with pytest.raises(ServiceRefused, match="deadline"):
        client.submit(*PAIRS[0], deadline=past)
    later = datetime.now().astimezone() + timedelta(hours=1)
    assert client.submit(*PAIRS[0], deadline=later).wait().state == "succeeded"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((5, 7, 6), (5, 6, 3)),
        ((5, 7, 6), (6, 3)),
        ((7, 6), (5, 6, 3)),
        ((1, 7, 6), (5, 6, 3)),
        ((5, 7, 6), (6,)),
    ],
)
def test_stacks_are_multiplied_as_numpy_does(client, a, b):
    random = np.random.default_rng(0)
    left, right = random.random(a), random.random(b)
    product = client.matmul(left, right)
    assert product.shape == np.matmul(left, right).shape
    np.testing.assert_allclose(product, left @ right)
    out = np.empty_like(product)
    assert client.matmul(left[..., ::-1], right, c=product, beta=2.0, out=out) is out
    np.testing.assert_allclose(out, left[..., ::-1] @ right + 2 * product)


def test_a_stack_is_stored_and_multiplied_by_a_job(client):
    random = np.random.default_rng(1)
    a, b = random.random((4, 9, 8)), random.random((4, 8, 5))
    stored = client.put(a.transpose(0, 1, 2)[:, ::-1])
    assert stored.shape == (4, 9, 8)
    np.testing.assert_array_equal(client.get(stored), a[:, ::-1])
    np.testing.assert_allclose(client.submit(stored, b).result(), a[:, ::-1] @ b)
