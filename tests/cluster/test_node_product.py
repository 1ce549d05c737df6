"""A product at one node: what it keeps of products that were cancelled, and of B.

While one product sends B, others wait: they can be cancelled, and have a deadline.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.cluster.ray_here import NODE_ID, RayHere
from tests.matrices import Array, make_matrix
from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.engine.operands import Operands
from wavetrim.scheduler.errors import ExecutionCancelled, NodeLost
from wavetrim.scheduler.planning.placing import Network

if TYPE_CHECKING:
    from wavetrim.scheduler.cluster.membership import NodeHandle

SIZE = 90
STORE_BYTES = 2**16
"""So small that B is sent in parts, and A in blocks."""


@pytest.fixture
def node(here: RayHere) -> "NodeHandle":
    from wavetrim.scheduler.cluster.membership import NodeHandle
    from wavetrim.scheduler.cluster.node_operands import NodeOperands

    operands = NodeOperands(2**30, here.actor.forget.remote)
    return NodeHandle(NODE_ID, here.actor, Network(1e-3, 1e9, 1e9), STORE_BYTES, operands)


A, B = make_matrix(SIZE, SIZE, "float32", seed=1), make_matrix(SIZE, SIZE, "float32", seed=2)


def multiply(
    node: "NodeHandle",
    out: Array,
    *,
    job: str,
    b_key: str | None = None,
    cancelled: Any,
    stall_seconds: float = 600,
) -> dict[str, Any]:
    """Compute out ← A·B at a node; its final message."""
    from wavetrim.scheduler.cluster.product import NodeProduct

    place = Operand(1, 0, SIZE, SIZE, "float32")
    return NodeProduct(
        RunRequest(job, place, place, None, place, b_key=b_key), Operands(A, B, None, out),
        node=node, expected_seconds=0.01, stall_seconds=stall_seconds,
        final=lambda _rows: None, cancelled=cancelled,
    ).run()  # fmt: skip


def test_a_node_forgets_that_a_product_was_cancelled(here: RayHere, node: "NodeHandle") -> None:
    out = np.zeros_like(A)
    here.waits = True
    with pytest.raises(ExecutionCancelled):
        multiply(node, out, job="j-0", cancelled=lambda: True)
    here.waits = False
    assert multiply(node, out, job="j-0", cancelled=lambda: False)["type"] == "succeeded"
    assert np.allclose(out, A @ B, atol=1e-3)


def test_a_b_that_two_products_find_gone_is_sent_once_more(
    here: RayHere, node: "NodeHandle"
) -> None:
    outs = [np.zeros_like(A) for _ in range(3)]
    multiply(node, outs[0], job="j-0", b_key="kept", cancelled=lambda: False)
    here.actor.engine.forget("kept")  # as if the engine had started again
    found, sent = threading.Event(), threading.Event()

    def wait_for_other() -> bool:
        found.set()
        sent.wait()
        return False

    here.waits = True
    late = threading.Thread(
        target=multiply, args=(node, outs[1]),
        kwargs={"job": "k-0", "b_key": "kept", "cancelled": wait_for_other},
    )  # fmt: skip
    late.start()
    found.wait()  # its first blocks were answered: B is gone
    here.waits = False
    multiply(node, outs[2], job="l-0", b_key="kept", cancelled=lambda: False)
    sent.set()
    late.join()
    assert all(np.allclose(out, A @ B, atol=1e-3) for out in outs)
    begun = [call for call in here.actor.calls if call[0] == "keep" and call[3] == 0]
    assert len(begun) == 2


@contextmanager
def sending_b(node: "NodeHandle") -> Iterator[None]:
    """Another product sends B, and still uses it."""
    with node.operands.use("kept", B.nbytes, keep=True) as resident, resident.sending:
        yield


def test_a_product_that_waits_for_b_too_long_gives_the_node_up(
    node: "NodeHandle", monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    killed: list[tuple[Any, bool]] = []

    def kill(actor: Any, *, no_restart: bool) -> None:
        killed.append((actor, no_restart))

    monkeypatch.setattr(ray, "kill", kill)
    with ThreadPoolExecutor(1) as pool, sending_b(node):
        waits = pool.submit(
            multiply, node, np.zeros_like(A), job="j-0", b_key="kept",
            cancelled=lambda: False, stall_seconds=0.2,
        )  # fmt: skip
        with pytest.raises(NodeLost, match=r"a block took longer than 0\.\d s"):
            waits.result(5)
    assert killed == [(node.actor, False)]
