"""The engine process: started, sent messages over its sockets, and ended."""

import mmap
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.environment import clear_environment
from tests.host_gpus import write_sitecustomize
from tests.limit import allow
from tests.matrices import FLOATS, assert_product, make_matrix, poison
from wavetrim.scheduler.engine.messages import (
    PACKET_BYTES,
    Operand,
    RunRequest,
    decode_message,
    encode_message,
)
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.lanes import CPU


class WorkerProcess:
    """An engine process, and our ends of its two sockets."""

    def __init__(self, folder, *arguments, cache, device="none"):
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
        (self.work, self.control), theirs = zip(*pairs, strict=True)
        for connection in (self.work, self.control):
            connection.settimeout(60)
        files = [connection.fileno() for connection in theirs]
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "wavetrim.scheduler.engine", "--fds", *map(str, files),
                "--cache-dir", str(cache), "--profile-dir", str(folder), "--device", device,
                *arguments,
            ],
            pass_fds=files,
        )  # fmt: skip
        for connection in theirs:
            connection.close()

    def send(self, message, files=()):
        socket.send_fds(self.work, [encode_message(message)], list(files))

    def tell(self, message):
        """Send a message that is read while a product runs."""
        self.control.send(encode_message(message))

    def share_slab(self, slab, size_bytes=2**20):
        """Share new memory as a slab; returns our view of it."""
        file = os.memfd_create("slab")
        os.ftruncate(file, size_bytes)
        memory = np.frombuffer(mmap.mmap(file, size_bytes), np.uint8)
        self.send({"type": "slab", "slab": slab, "size_bytes": size_bytes}, files=[file])
        os.close(file)
        return memory

    def receive(self, connection=None):
        return decode_message((connection or self.work).recv(PACKET_BYTES))

    def receive_until(self, *types):
        """The messages up to the first of one of these types."""
        seen = [self.receive()]
        while seen[-1]["type"] not in types:
            seen.append(self.receive())
        return seen

    def run(self, request):
        self.send(request.as_message())
        return self.receive_until("succeeded", "failed", "cancelled")

    def close(self):
        self.work.close()
        self.control.close()


@pytest.fixture
def start(tmp_path, kernel_cache):
    """Starts workers, and ends them whatever the test has done to them."""
    workers = []

    def start_worker(*arguments, device="none"):
        workers.append(WorkerProcess(tmp_path, *arguments, cache=kernel_cache, device=device))
        return workers[-1]

    yield start_worker
    for worker in workers:
        worker.close()
        worker.process.kill()
        worker.process.wait()


@pytest.fixture
def worker(start):
    started = start("--cpu-threads", "2")
    assert started.receive()["type"] == "ready"
    return started


@pytest.fixture(scope="module")
def shared(tmp_path_factory, kernel_cache):
    """One worker for all tests that only compute and read all its messages."""
    folder = tmp_path_factory.mktemp("shared")
    started = WorkerProcess(folder, "--cpu-threads", "2", cache=kernel_cache)
    assert started.receive()["type"] == "ready"
    yield started
    started.close()
    started.process.wait(10)


def write(folder, name, array):
    path = folder / name
    np.save(path, array)
    offset = path.stat().st_size - array.nbytes
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    return Operand(str(path), offset, *array.shape, str(array.dtype), fortran)


def read(operand):
    return np.load(operand.slab)


def make_request(folder, a, b, c=None, **options):
    out = poison(np.empty((a.shape[0], b.shape[1]), a.dtype))
    return RunRequest(
        job="job-1",
        a=write(folder, "a.npy", a),
        b=write(folder, "b.npy", b),
        c=None if c is None else write(folder, "c.npy", c),
        out=write(folder, "out.npy", out),
        **options,
    )


def make_slow_request(folder):
    """About three seconds on two cores: 64-bit integers have no fast product."""
    a = make_matrix(2000, 2000, "int64", seed=1)
    return make_request(folder, a, a)


def test_a_started_worker_describes_itself(start):
    worker = start("--cpu-threads", "1")
    ready = worker.receive()
    assert (ready["type"], ready["pid"]) == ("ready", worker.process.pid)
    assert (ready["devices"], ready["cpu_threads"]) == ([], 1)
    assert ready["profile"]["device"] == "cpu"


@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "int64"])
def test_a_run_writes_the_product_into_the_file(shared, tmp_path, dtype):
    a, b = make_matrix(37, 53, dtype, seed=1), make_matrix(53, 29, dtype, seed=2)
    request = make_request(tmp_path, a, b, verify=True)
    planned, *_, succeeded = shared.run(request)
    assert planned["type"] == "planned"
    assert planned["plan"]["f"] == 37
    assert succeeded["type"] == "succeeded"
    assert succeeded["plan"] == planned["plan"]
    assert 0 < succeeded["timings"]["cpu_seconds"] <= succeeded["timings"]["total_seconds"]
    assert succeeded["verification"]["passed"]
    assert_product(read(request.out).view(dtype), a, b)  # NumPy reads bfloat16 as raw bytes


def test_beta_adds_c_in_any_order(shared, tmp_path):
    a = make_matrix(31, 17, "float64", seed=1, order="F")
    b = make_matrix(17, 23, "float64", seed=2, order="F")
    c = make_matrix(31, 23, "float64", seed=3, order="F")
    request = make_request(tmp_path, a, b, c, alpha=0.5, beta=-2.0, verify=True)
    assert shared.run(request)[-1]["type"] == "succeeded"
    assert np.allclose(read(request.out), 0.5 * a @ b - 2 * c)
    assert np.array_equal(read(request.c), c)


def test_a_c_of_nan_is_not_read_while_beta_is_zero(shared, tmp_path):
    a = make_matrix(8, 8, "float32", seed=1)
    request = make_request(tmp_path, a, a, np.full((8, 8), np.nan, "float32"), beta=0.0)
    assert shared.run(request)[-1]["type"] == "succeeded"
    assert np.allclose(read(request.out), a @ a, atol=1e-5)


def test_a_request_that_cannot_be_planned_is_not_retryable(shared, tmp_path):
    a = make_matrix(8, 8, "float32", seed=1)
    failed = shared.run(make_request(tmp_path, a, a, options=PlanOptions(f=9)))[-1]
    assert (failed["type"], failed["kind"], failed["retryable"]) == ("failed", "plan", False)
    assert "f is 9" in failed["message"]
    assert shared.run(make_request(tmp_path, a, a))[-1]["type"] == "succeeded"


def test_options_are_fields_of_the_message_and_may_be_left_out(shared, tmp_path):
    a = make_matrix(8, 8, "float32", seed=1)
    message = make_request(tmp_path, a, a).as_message()
    shared.send(message)
    assert shared.receive_until("succeeded", "failed")[-1]["type"] == "succeeded"
    shared.send({**message, "accuracy": "float64"})
    failed = shared.receive_until("succeeded", "failed")[-1]
    assert "accuracy is 'float64'; it must be one of" in failed["message"]


def test_the_cpu_alone_needs_no_kernel(shared, tmp_path):
    a = make_matrix(8, 8, "float32", seed=1)
    request = make_request(tmp_path, a, a, options=PlanOptions("unknown", f=9), cpu_only=True)
    assert shared.run(request)[-1]["type"] == "succeeded"


def test_the_failure_for_a_missing_file_hides_its_path(shared, tmp_path):
    a = make_matrix(8, 8, "float32", seed=1)
    request = make_request(tmp_path, a, a)
    Path(request.b.slab).unlink()
    failed = shared.run(request)[-1]
    assert (failed["type"], failed["kind"]) == ("failed", "internal")
    assert str(tmp_path) not in failed["message"]
    assert shared.run(make_request(tmp_path, a, a))[-1]["type"] == "succeeded"


def test_malformed_messages_are_skipped(shared):
    for packet in (b"nonsense", b'{"type": "cancel"}', b"[]", b'{"type": "ping"}'):
        shared.control.send(packet)
    assert shared.receive(shared.control) == {"type": "pong"}


def test_pings_and_a_cancel_are_answered_while_a_product_runs(shared, tmp_path):
    shared.send(make_slow_request(tmp_path).as_message())
    shared.receive_until("planned")
    began = time.monotonic()
    shared.tell({"type": "ping"})
    assert shared.receive(shared.control) == {"type": "pong"}
    assert time.monotonic() - began < allow(2)
    shared.tell({"type": "cancel", "job": "another"})
    shared.tell({"type": "ping"})
    assert shared.receive(shared.control) == {"type": "pong"}
    shared.tell({"type": "cancel", "job": "job-1"})
    final = shared.receive_until("succeeded", "failed", "cancelled")[-1]
    assert final == {"type": "cancelled", "job": "job-1"}
    assert time.monotonic() - began < allow(5)


def test_progress_comes_at_most_twenty_times_a_second(shared, tmp_path):
    a = make_matrix(1000, 1000, "int64", seed=1)
    began = time.monotonic()
    messages = shared.run(make_request(tmp_path, a, a))
    seconds = time.monotonic() - began
    shares = [message["progress"] for message in messages if message["type"] == "progress"]
    assert 1 <= len(shares) <= 20 * seconds + 1
    assert shares == sorted(shares)
    assert all(0 < share <= 1 for share in shares)


def test_final_rows_are_reported_in_steps_of_the_wanted_size(shared, tmp_path):
    a = make_matrix(2000, 2000, "float64", seed=1)
    request = make_request(tmp_path, a, a, row_step=300)
    shared.send(request.as_message())
    *_, first = shared.receive_until("rows")
    product = np.load(request.out.slab, mmap_mode="r")
    for start, stop in first["final"]:
        assert np.allclose(product[start:stop], a[start:stop] @ a)
    rest = shared.receive_until("succeeded", "failed", "cancelled")
    told = [message["final"] for message in (first, *rest) if message["type"] == "rows"]
    counts = [0, *(sum(stop - start for start, stop in final) for final in told)]
    assert all(after - before >= 300 for before, after in pairwise(counts))
    assert rest[-1]["type"] == "succeeded"


def test_a_row_that_changes_after_it_was_final_is_computed_again(shared, tmp_path):
    a = make_matrix(2500, 2500, "float64", seed=1)
    request = make_request(tmp_path, a, a, row_step=300, verify=True)
    shared.send(request.as_message())
    *_, first = shared.receive_until("rows")
    product = np.load(request.out.slab, mmap_mode="r+")
    (start, _), *_ = first["final"]
    product[start, 77] += 1e-3
    rest = shared.receive_until("succeeded", "failed", "cancelled")
    types = [message["type"] for message in rest]
    assert types.index("again") > max(
        (place for place, one in enumerate(types) if one == "rows"), default=-1
    )
    check = rest[-1]["verification"]
    assert check["passed"]
    assert (check["wrong_rows"], check["recomputed_on"]) == (1, "cpu")
    assert np.allclose(product[start], a[start] @ a, rtol=1e-9, atol=1e-9)


def test_final_rows_are_not_reported_unless_asked_for(shared, tmp_path):
    a = make_matrix(1500, 1500, "float32", seed=1)
    types = {message["type"] for message in shared.run(make_request(tmp_path, a, a))}
    assert types <= {"planned", "progress", "succeeded"}


def test_products_are_computed_in_a_slab_by_its_id(shared):
    memory = shared.share_slab(7)
    a, b = make_matrix(33, 21, "float32", seed=1), make_matrix(21, 50, "float32", seed=2)
    memory[4096 : 4096 + a.nbytes] = a.reshape(-1).view(np.uint8)
    memory[8192 : 8192 + b.nbytes] = b.reshape(-1).view(np.uint8)
    request = RunRequest(
        job="j",
        a=Operand(7, 4096, 33, 21, "float32"),
        b=Operand(7, 8192, 21, 50, "float32"),
        c=None,
        out=Operand(7, 16384, 33, 50, "float32"),
        reports=False,
    )
    (final,) = shared.run(request)  # neither plan nor progress
    assert final["type"] == "succeeded"
    out = memory[16384 : 16384 + 33 * 50 * 4].view(np.float32).reshape(33, 50)
    assert np.allclose(out, a @ b, rtol=1e-5)


def test_operands_become_the_type_of_the_result(shared, tmp_path):
    a, b = make_matrix(9, 5, "float16", seed=1), make_matrix(5, 7, "float16", seed=2)
    out = write(tmp_path, "out.npy", poison(np.empty((9, 7), np.float64)))
    request = RunRequest(
        "j", write(tmp_path, "a.npy", a), write(tmp_path, "b.npy", b), None, out, verify=True
    )
    assert shared.run(request)[-1]["type"] == "succeeded"
    assert np.allclose(read(out), a.astype(np.float64) @ b.astype(np.float64), rtol=1e-14)


def test_a_matrix_beyond_its_slab_fails_without_a_retry(shared):
    shared.share_slab(8)
    inside, beyond = Operand(8, 0, 8, 8, "float32"), Operand(8, 2**20, 8, 8, "float32")
    failed = shared.run(RunRequest("j", inside, inside, None, beyond))[-1]
    assert failed["type"] == "failed"
    assert not failed["retryable"]


def test_the_descriptor_of_a_slab_is_not_kept(shared):
    for slab in (1, 2):
        shared.share_slab(slab)
    shared.send({"type": "drop", "slab": 2})
    assert shared.receive() == {"type": "dropped", "slab": 2}
    kept = [str(fd.readlink()) for fd in Path(f"/proc/{shared.process.pid}/fd").iterdir()]
    assert not [target for target in kept if "memfd" in target]


def test_a_dropped_slab_is_acknowledged_and_then_unknown(shared):
    shared.share_slab(3)
    shared.send({"type": "drop", "slab": 3})
    assert shared.receive() == {"type": "dropped", "slab": 3}
    operand = Operand(3, 0, 8, 8, "float32")
    assert shared.run(RunRequest("j", operand, operand, None, operand))[-1]["type"] == "failed"


def test_a_shutdown_ends_the_worker(worker):
    worker.send({"type": "shutdown"})
    assert worker.process.wait(timeout=allow(10)) == 0


def test_a_shutdown_stops_a_running_product(worker, tmp_path):
    worker.send(make_slow_request(tmp_path).as_message())
    worker.receive_until("planned")
    worker.tell({"type": "shutdown"})
    worker.send({"type": "shutdown"})
    assert worker.process.wait(timeout=allow(10)) == 0


def test_a_worker_without_its_service_ends_even_during_a_product(worker, tmp_path):
    worker.send(make_slow_request(tmp_path).as_message())
    worker.receive_until("planned")
    worker.close()
    began = time.monotonic()
    worker.process.wait(timeout=allow(10))
    assert time.monotonic() - began < allow(2)


def test_sigint_and_sigterm_do_not_end_the_worker(shared):
    shared.process.send_signal(signal.SIGINT)
    shared.process.send_signal(signal.SIGTERM)
    shared.tell({"type": "ping"})
    assert shared.receive(shared.control) == {"type": "pong"}


def test_the_out_of_memory_killer_prefers_the_worker(shared):
    score = Path(f"/proc/{shared.process.pid}/oom_score_adj").read_text()
    assert int(score) >= 500


@pytest.fixture
def lanes(start, tmp_path, monkeypatch):
    """A worker with two GPUs in host memory, which take half a second for a hundred rows."""
    folder = write_sitecustomize(tmp_path, row_seconds=0.005)
    monkeypatch.setenv("PYTHONPATH", clear_environment(folder)["PYTHONPATH"])
    worker = start("--cpu-threads", "2", device="0,1")
    assert len(worker.receive()["devices"]) == 2
    return worker


def make_slab_request(memory, job, rows, lane):
    """A product in slab 7 with 100 columns; its place follows from the job's number."""
    begin = int(job) * 2**20
    names = {"a": (rows, 500), "b": (500, 100), "out": (rows, 100)}
    places, matrices = {}, {}
    for name, shape in names.items():
        places[name] = Operand(7, begin, *shape, "float32")
        size = 4 * shape[0] * shape[1]
        matrices[name] = memory[begin : begin + size].view(np.float32).reshape(shape)
        matrices[name][...] = make_matrix(*shape, "float32", seed=len(name))
        begin += size
    return RunRequest(job=job, c=None, reports=False, lane=lane, **places), matrices


def test_products_in_lanes_run_at_once_and_release_their_slab(lanes):
    """A slab can be dropped once its last product has answered."""
    memory = lanes.share_slab(7, 2**23)
    runs = {
        job: make_slab_request(memory, job, rows, frozenset(lane))
        for job, rows, lane in (("1", 200, {0}), ("2", 100, {1}), ("3", 20, {CPU}))
    }
    for request, _ in runs.values():
        lanes.send(request.as_message())
    ends, begun = [], {}
    while len(ends) < 3:
        message = lanes.receive()
        if message["type"] == "begun":
            begun[message["job"]] = message["lane"]
        else:
            assert message["type"] == "succeeded", message
            ends.append(message["job"])
    assert begun == {"1": [0], "2": [1]}
    assert ends == ["3", "2", "1"]
    lanes.send({"type": "drop", "slab": 7})
    assert lanes.receive() == {"type": "dropped", "slab": 7}
    for _, matrices in runs.values():
        assert np.allclose(matrices["out"], matrices["a"] @ matrices["b"], atol=1e-3)


def test_a_run_in_a_lane_is_cancelled_and_a_shutdown_ends_all(lanes):
    memory = lanes.share_slab(7, 2**23)
    for job, device in (("1", 0), ("2", 1)):
        request, _ = make_slab_request(memory, job, 500, frozenset({device}))
        lanes.send(request.as_message())
    lanes.receive_until("begun")
    lanes.receive_until("begun")
    lanes.tell({"type": "cancel", "job": "1"})
    assert lanes.receive() == {"type": "cancelled", "job": "1"}
    lanes.tell({"type": "shutdown"})
    lanes.send({"type": "shutdown"})
    assert lanes.process.wait(timeout=10) == 0


def test_a_matrix_that_was_never_resident_may_be_forgotten(shared, tmp_path):
    a = make_matrix(20, 20, "float32", seed=1)
    shared.send({"type": "forget", "matrix": "deleted"})
    succeeded = shared.run(make_request(tmp_path, a, a, b_key="stored"))[-1]
    assert (succeeded["type"], succeeded["plan"]["resident"]) == ("succeeded", False)


@pytest.mark.gpu
def test_only_a_stored_b_in_a_slab_and_of_the_results_type_becomes_resident(start, tmp_path):
    worker = start(device="0")
    worker.receive()
    a, b = make_matrix(16, 2048, "float32", seed=1), make_matrix(2048, 2048, "float32", seed=2)
    memory = worker.share_slab(5, 2**25)
    memory[: b.nbytes] = b.reshape(-1).view(np.uint8)
    halves = b.astype("float16")
    memory[2**24 : 2**24 + halves.nbytes] = halves.reshape(-1).view(np.uint8)
    in_file = make_request(tmp_path, a, b, b_key="in a file", options=PlanOptions(f=0))
    requests = (
        replace(in_file, b=Operand(5, 0, 2048, 2048, "float32"), b_key="kept"),
        in_file,
        replace(in_file, b=Operand(5, 2**24, 2048, 2048, "float16"), b_key="converted"),
    )
    seen = []
    for request in requests:
        for _ in range(4):
            succeeded = worker.run(request)[-1]
            assert np.allclose(read(request.out), a @ b, atol=0.1)
            seen.append(succeeded["plan"]["resident"])
    assert (seen[0], seen[3], any(seen[4:])) == (False, True, False)
    worker.send({"type": "forget", "matrix": "kept"})
    worker.run(in_file)  # after it, the worker has forgotten
    worker.tell({"type": "ping"})
    (told,) = worker.receive(worker.control)["residents"]
    assert (told["operands"], told["size_bytes"], told["fetches"]) == (0, 0, 1)


@pytest.mark.gpu
def test_the_gpu_and_the_cpu_share_the_rows_of_mapped_files(start, tmp_path):
    worker = start(device="0")
    assert len(worker.receive()["devices"]) == 1
    a, b = make_matrix(700, 300, "float32", seed=1), make_matrix(300, 500, "float32", seed=2)
    c = make_matrix(700, 500, "float32", seed=3)
    request = make_request(
        tmp_path, a, b, c, alpha=2.0, beta=-1.0, options=PlanOptions(f=100), verify=True
    )
    succeeded = worker.run(request)[-1]
    assert succeeded["type"] == "succeeded", succeeded
    assert (succeeded["plan"]["gpu_rows"], succeeded["plan"]["f"]) == (600, 100)
    assert succeeded["timings"]["kernel_seconds"] > 0
    assert succeeded["timings"]["cpu_seconds"] > 0
    assert np.allclose(read(request.out), 2 * a @ b - c, atol=1e-3)


@pytest.mark.gpu
def test_the_cpu_alone_leaves_the_gpu_alone(start, tmp_path):
    worker = start(device="0")
    worker.receive()
    a = make_matrix(300, 300, "float32", seed=1)
    succeeded = worker.run(make_request(tmp_path, a, a, options=PlanOptions(f=0), cpu_only=True))[
        -1
    ]
    assert (succeeded["plan"]["f"], succeeded["timings"]["gpu_seconds"]) == (300, 0)
