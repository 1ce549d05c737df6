"""The engine process: sent messages over its sockets; products one by one, and in lanes."""

import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.environment import clear_environment
from tests.host_gpus import write_sitecustomize
from tests.limit import allow
from tests.matrices import FLOATS, assert_product, make_matrix
from tests.scheduler.engine.worker_process import (
    WorkerProcess,
    make_request,
    make_slow_request,
    read,
)
from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.device_sets import CPU


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


def test_a_cancel_of_an_ended_try_stops_no_later_one_of_the_job(shared, tmp_path):
    """Whether it crosses the answer, or comes while the next one runs."""
    a = make_matrix(300, 300, "float32", seed=1)
    assert shared.run(make_request(tmp_path, a, a))[-1]["type"] == "succeeded"
    ended = shared.numbers["job-1"]
    shared.cancel("job-1")
    shared.send(make_slow_request(tmp_path, size=1000).as_message())
    shared.receive_until("planned")
    shared.tell({"type": "cancel", "job": "job-1", "number": ended})
    assert shared.receive_until("succeeded", "failed", "cancelled")[-1]["type"] == "succeeded"


def test_a_product_that_is_cancelled_before_it_begins_is_not_computed(shared, tmp_path):
    slow = make_slow_request(tmp_path)
    shared.send(slow.as_message())
    shared.receive_until("planned")
    shared.send(replace(slow, job="behind").as_message())
    shared.cancel("behind")
    shared.cancel("job-1")
    first, second = (shared.receive_until("succeeded", "cancelled") for _ in range(2))
    assert first[-1] == {"type": "cancelled", "job": "job-1"}
    assert second == [{"type": "cancelled", "job": "behind"}]


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
    a = make_matrix(1500, 1500, "float64", seed=1)
    request = make_request(tmp_path, a, a, row_step=300)
    shared.send(request.as_message())
    *_, first = shared.receive_until("rows")
    product = np.load(request.out.slab, mmap_mode="r")
    for start, stop in first["final"]:
        assert_product(product[start:stop], a[start:stop], a)
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
    assert_product(product[start : start + 1], a[start : start + 1], a)


@pytest.mark.parametrize(("size", "products"), [(40, 10_000), (400, 20)])
def test_a_stack_is_cancelled_between_its_products(shared, tmp_path, size, products):
    a = np.ones((size, size), "int64")  # 64-bit integers have no fast product
    request = make_request(tmp_path, a, np.ones((products, size, size), "int64"))
    shared.send(request.as_message())
    shared.receive_until("planned")
    began = time.monotonic()
    shared.cancel("job-1")
    assert shared.receive_until("succeeded", "cancelled", "failed")[-1]["type"] == "cancelled"
    assert time.monotonic() - began < allow(2)


def test_a_shutdown_stops_a_running_product(start, tmp_path):
    worker = start()
    assert worker.receive()["type"] == "ready"
    worker.send(make_slow_request(tmp_path).as_message())
    worker.receive_until("planned")
    worker.tell({"type": "shutdown"})
    worker.send({"type": "shutdown"})
    assert worker.process.wait(timeout=allow(10)) == 0


def test_the_out_of_memory_killer_prefers_the_worker(shared):
    score = Path(f"/proc/{shared.process.pid}/oom_score_adj").read_text()
    assert int(score) >= 500


@pytest.fixture(scope="module")
def lanes(tmp_path_factory, kernel_cache):
    """A worker with two GPUs in host memory, which take half a second for a hundred rows."""
    folder = write_sitecustomize(tmp_path_factory.mktemp("lanes"), row_seconds=0.005)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", clear_environment(folder)["PYTHONPATH"])
        worker = WorkerProcess(folder, cache=kernel_cache, devices="0,1")
    assert len(worker.receive()["devices"]) == 2
    yield worker
    worker.close()
    worker.process.wait(10)


def make_slab_request(memory, job, rows, device_set):
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
    return RunRequest(job=job, c=None, reports=False, device_set=device_set, **places), matrices


def test_products_in_lanes_run_at_once_and_release_their_slab(lanes):
    """A slab can be dropped once its last product has answered."""
    memory = lanes.share_slab(7, 2**23)
    runs = {
        job: make_slab_request(memory, job, rows, frozenset(device_set))
        for job, rows, device_set in (("1", 200, {0}), ("2", 100, {1}), ("3", 20, {CPU}))
    }
    for request, _ in runs.values():
        lanes.send(request.as_message())
    ends, begun = [], {}
    while len(ends) < 3:
        message = lanes.receive()
        if message["type"] == "begun":
            assert "1" not in ends
            begun[message["job"]] = message["device_set"]
        else:
            assert message["type"] == "succeeded", message
            ends.append(message["job"])
    assert begun == {"1": [0], "2": [1]}
    assert ends[-1] == "1", "the first waits for no other"
    lanes.send({"type": "drop", "slab": 7})
    assert lanes.receive() == {"type": "dropped", "slab": 7}
    for _, matrices in runs.values():
        assert_product(matrices["out"], matrices["a"], matrices["b"])


def test_a_slab_whose_product_is_about_to_end_is_dropped_after_it(lanes):
    memory = lanes.share_slab(7, 2**23)
    request, _ = make_slab_request(memory, "1", 60, frozenset({0}))
    lanes.send(replace(request, reports=True).as_message())
    lanes.receive_until("planned")
    lanes.send({"type": "drop", "slab": 7})
    assert lanes.receive_until("succeeded", "failed")[-1]["type"] == "succeeded"
    assert lanes.receive() == {"type": "dropped", "slab": 7}


@pytest.mark.gpu
def test_the_gpu_and_the_cpu_share_the_rows_of_mapped_files(start, tmp_path):
    worker = start("0")
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
    worker = start("0")
    worker.receive()
    a = make_matrix(300, 300, "float32", seed=1)
    request = make_request(tmp_path, a, a, options=PlanOptions(f=0), cpu_only=True)
    succeeded = worker.run(request)[-1]
    assert (succeeded["plan"]["f"], succeeded["timings"]["gpu_seconds"]) == (300, 0)


def draw_stack(*shape, seed):
    rows = int(np.prod(shape[:-1]))
    return np.ascontiguousarray(make_matrix(rows, shape[-1], "float32", seed)).reshape(shape)


@pytest.mark.gpu
@pytest.mark.parametrize("verify", [False, True])
def test_the_gpu_computes_the_products_of_a_stack(start, tmp_path, verify):
    worker = start("0")
    worker.receive()
    a, b = draw_stack(4, 700, 300, seed=1), draw_stack(4, 300, 500, seed=2)
    c = draw_stack(700, 500, seed=3)
    request = make_request(
        tmp_path, a, b, c, alpha=2.0, beta=-1.0, options=PlanOptions(f=100), verify=verify
    )
    done = worker.run(request)[-1]
    assert done["type"] == "succeeded", done
    plan, timings = done["plan"], done["timings"]
    assert (plan["stack"], plan["gpu_rows"], plan["f"]) == (4, 600, 100)
    assert timings["f_actual"] == 400
    assert timings["gpu_seconds"] > 0
    np.testing.assert_allclose(read(request.out), 2 * (a @ b) - c, rtol=0, atol=1e-3)


@pytest.mark.gpu
def test_only_a_stored_b_in_a_slab_and_of_the_results_type_becomes_resident(start, tmp_path):
    worker = start("0")
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
