"""Products in slabs of an engine process: several at once, in lanes; a B that becomes resident."""

from dataclasses import replace

import numpy as np
import pytest

from tests.environment import clear_environment
from tests.host_gpus import write_sitecustomize
from tests.matrices import assert_product, make_matrix
from tests.scheduler.engine.worker_process import WorkerProcess, make_request, read
from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.device_sets import CPU


@pytest.fixture(scope="module")
def lanes(tmp_path_factory, kernel_cache):
    """A worker with two GPUs in host memory, which take half a second for a hundred rows."""
    folder = write_sitecustomize(tmp_path_factory.mktemp("lanes"), row_seconds=0.005)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", clear_environment(folder)["PYTHONPATH"])
        worker = WorkerProcess(folder, "--cpu-threads", "2", cache=kernel_cache, device="0,1")
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
            begun[message["job"]] = message["lane"]
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
