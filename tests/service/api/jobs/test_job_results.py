"""Results of jobs on a real server: written while they are computed, in two transactions a job."""

import os
import signal
import struct
import threading
from contextlib import suppress

import numpy as np
import pytest

from tests.matrices import make_matrix
from tests.processes import wait_until
from tests.server import make_server_fixture
from wavetrim.service.storage.disk.disk_writer import WRITE_BYTES

MIB = 2**20


@pytest.fixture(scope="module")
def slow():
    """A matrix whose square, of 46 MB, takes a second on one core."""
    return make_matrix(2400, 2400, "float64", seed=1)


@pytest.fixture(scope="module")
def square(slow):
    return slow @ slow


server = make_server_fixture(arena_bytes=512 * MIB, arena_poison=True)


def has_begun_to_write(server):
    """Whether some of the unfinished file is on the disk, a part that the engine told of."""
    with suppress(FileNotFoundError):  # it is complete by now
        for path in (server.data_dir / "matrices").glob("*.part"):
            return count_written(path) >= WRITE_BYTES
    return False


def count_written(path):
    """Bytes of a file that were written, not only reserved."""
    written = end = 0
    with path.open("rb") as file, suppress(OSError):  # there is no data after the last byte
        while True:
            begin = os.lseek(file.fileno(), end, os.SEEK_DATA)
            end = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            written += end - begin
    return written


def count_commits(server):
    """Transactions in the database's write-ahead log, by its format."""
    log = (server.data_dir / "wavetrim.db-wal").read_bytes()
    page_bytes = struct.unpack_from(">I", log, 8)[0]
    salts = log[16:24]
    commits = 0
    for frame in range(32, len(log), 24 + page_bytes):
        if log[frame + 8 : frame + 16] != salts:
            break
        commits += struct.unpack_from(">I", log, frame + 4)[0] > 0
    return commits


def test_a_result_is_written_while_later_rows_are_computed(server, slow, square):
    a = server.upload(slow)
    job_id = server.post_job(a, a, verify=True, beta=0.5, c=a)
    wait_until(lambda: has_begun_to_write(server))
    running = server.client.get(f"/v1/jobs/{job_id}").json()
    assert running["state"] == "running"
    assert running["progress"] < 1
    job = server.wait_job(job_id)
    assert job["state"] == "succeeded", job
    assert job["verification"]["passed"]
    kept = server.download(f"/v1/jobs/{job_id}/result")
    assert np.allclose(kept, square + 0.5 * slow)
    file = server.data_dir / "matrices" / f"{job['result']}.npy"
    assert np.array_equal(np.load(file), kept)


def test_what_one_try_has_written_the_next_writes_anew(server, slow, square):
    a = server.upload(slow)
    job_id = server.post_job(a, a)
    wait_until(lambda: has_begun_to_write(server))
    os.kill(server.find_engine(), signal.SIGKILL)
    job = server.wait_job(job_id)
    assert (job["state"], job["attempts"]) == ("succeeded", 2)
    # After a restart it comes from the disk, and is compared with its checksum.
    server.stop()
    server.restart()
    assert np.allclose(server.download(f"/v1/jobs/{job_id}/result"), square)


def test_a_cancelled_job_leaves_nothing_of_what_it_has_written(server, slow):
    before = server.list_matrix_files()
    a = server.upload(slow)
    job_id = server.post_job(a, a)
    wait_until(lambda: has_begun_to_write(server))
    server.client.delete(f"/v1/jobs/{job_id}")
    assert server.wait_job(job_id)["state"] == "cancelled"
    wait_until(lambda: server.list_matrix_files() == before | {f"{a}.npy"})


@pytest.mark.parametrize("storage", ["disk", "memory"])
def test_a_job_makes_two_transactions(server, storage):
    a = server.upload(make_matrix(300, 300, "float32", seed=1))
    counts = []
    for _ in range(5):
        before = count_commits(server)
        job = server.wait_job(server.post_job(a, a, storage=storage))
        assert (job["state"], job["attempts"]) == ("succeeded", 1)
        assert job["created_at"] <= job["started_at"] <= job["finished_at"]
        counts.append(count_commits(server) - before)
    # The service tries now and then whether it can write: that may be among them.
    assert min(counts) == 2
    assert sorted(counts)[2] == 2


def test_a_look_at_a_job_waits_for_its_end_as_long_as_it_is_asked_to(server, slow):
    a = server.upload(make_matrix(1000, 1000, "int64", seed=1))
    job_id = server.post_job(a, a)
    look = server.client.get(f"/v1/jobs/{job_id}?wait_seconds=0.05").json()
    assert look["state"] in ("queued", "running")
    assert server.wait_job(job_id)["state"] == "succeeded"
    assert server.client.get("/v1/jobs/none?wait_seconds=5").status_code == 404
    refused = server.client.get(f"/v1/jobs/{job_id}?wait_seconds=61")
    assert (refused.status_code, refused.json()["field"]) == (422, "wait_seconds")


def test_a_caller_that_waits_for_a_queued_job_is_told_when_the_service_ends(start_server, slow):
    server = start_server(drain_seconds=20)
    a = server.upload(make_matrix(1300, 1300, "int64", seed=1))
    server.post_job(a, a)
    queued = server.post_job(a, a)
    threading.Timer(0.3, server.terminate).start()
    job = server.client.get(f"/v1/jobs/{queued}?wait_seconds=50").json()
    assert job["state"] == "queued"


def test_results_in_memory_that_find_no_room_there_are_kept_on_disk(start_server):
    server = start_server(arena_bytes=32 * MIB, arena_slab_bytes=16 * MIB, arena_poison=True)
    a = make_matrix(1024, 1024, "float64", seed=1)  # 8 MiB, and a page: a slab has one of them
    name, factors = server.upload(a), range(1, 9)
    ids = [server.post_job(name, name, storage="memory", alpha=factor) for factor in factors]
    jobs = [server.wait_job(one) for one in ids]
    assert [(job["state"], job["attempts"]) for job in jobs] == [("succeeded", 1)] * 8, jobs
    paths = [f"/v1/matrices/{job['result']}" for job in jobs]
    places = [server.client.get(path).json()["where"] for path in paths]
    assert 1 <= places.count("memory") <= 2, places
    for factor, path in zip(factors, paths, strict=True):
        assert np.allclose(server.download(f"{path}/data"), factor * (a @ a))
    last = jobs[-1]["result"]  # they are operands as others are
    server.run_job(last, last, storage="memory")
