"""Matrices in slabs of the engine process, and those that become resident."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.matrices import assert_product, make_matrix
from tests.scheduler.engine.worker_process import make_request, read
from wavetrim.scheduler.engine.messages import (
    Operand,
    RunRequest,
)
from wavetrim.scheduler.options import PlanOptions


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
    assert_product(out, a, b)


def test_the_descriptor_of_a_slab_is_not_kept(shared):
    for slab in (1, 2):
        shared.share_slab(slab)
    shared.send({"type": "drop", "slab": 2})
    assert shared.receive() == {"type": "dropped", "slab": 2}
    kept = [str(fd.readlink()) for fd in Path(f"/proc/{shared.process.pid}/fd").iterdir()]
    assert not [target for target in kept if "memfd" in target]


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
