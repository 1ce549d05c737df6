"""A product at one node: one that was cancelled, and what the node keeps of B.

While one product sends B, others wait: they can be cancelled, and have a deadline. There is no
cluster: an actor's calls are made at once, by the thread that asks for them, so a test decides what
happens between two steps. The node, its engine and the products are real.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from tests.cluster.local_cluster import ENVIRONMENT
from tests.matrices import make_matrix
from wavetrim.scheduler.engine.messages import Operand, RunRequest
from wavetrim.scheduler.errors import ExecutionCancelled, NodeLost
from wavetrim.scheduler.execution.rows import Hooks
from wavetrim.scheduler.planning.placing import Network
from wavetrim.scheduler.product import EngineProduct

SIZE = 90
STORE_BYTES = 2**16
"""So small that B is sent in parts, and A in blocks."""


class Call:
    """One method of an actor."""

    def __init__(self, actor, name):
        self._actor = actor
        self._name = name

    def options(self, **_):
        return self

    def remote(self, *arguments):
        self._actor.calls.append((self._name, *arguments))
        return getattr(self._actor.engine, self._name)(*arguments)


class Actor:
    """An actor of this process.

    Attributes:
        engine: What its calls go to.
        calls: Name and arguments of each call.
        waits: Whether an answer that is waited for is not there yet.
    """

    def __init__(self, engine):
        self.engine = engine
        self.calls: list[tuple[Any, ...]] = []
        self.waits = False

    def __getattr__(self, name):
        return Call(self, name)

    def wait(self, objects, *, timeout):
        """As `ray.wait`."""
        del timeout
        return ((), objects) if self.waits else (objects, ())


@pytest.fixture
def actor(monkeypatch, tmp_path, kernel_cache):
    """The engine of a node without a GPU, in place of Ray's actor."""
    variables = {
        "WAVETRIM_DEVICES": "none", "WAVETRIM_CPU_THREADS": "1",
        "WAVETRIM_KERNEL_CACHE_DIR": str(kernel_cache), "WAVETRIM_PROFILE_DIR": str(tmp_path),
    }  # fmt: skip
    for name, value in {**ENVIRONMENT, **variables}.items():
        monkeypatch.setenv(name, value)
    import ray  # which reads these

    from wavetrim.scheduler.cluster.node import NodeEngine

    actor = Actor(NodeEngine())
    monkeypatch.setattr(ray, "get", lambda value, timeout=None: value)
    monkeypatch.setattr(ray, "put", lambda value: value)
    monkeypatch.setattr(ray, "wait", actor.wait)
    return actor


@pytest.fixture
def node(actor):
    from wavetrim.scheduler.cluster.membership import NodeHandle
    from wavetrim.scheduler.cluster.node_operands import NodeOperands

    operands = NodeOperands(2**30, actor.forget.remote)
    return NodeHandle("node", actor, Network(1e-3, 1e9, 1e9), STORE_BYTES, operands)


A, B = make_matrix(SIZE, SIZE, "float32", seed=1), make_matrix(SIZE, SIZE, "float32", seed=2)


def multiply(node, out, *, job, b_key=None, cancelled, stall_seconds=600):
    """Compute out ← A·B at a node; its final message."""
    from wavetrim.scheduler.cluster.product import NodeProduct

    place = Operand(1, 0, SIZE, SIZE, "float32")
    return NodeProduct(
        RunRequest(job, place, place, None, place, b_key=b_key), EngineProduct(A, B, None, out),
        node=node, expected_seconds=0.01, stall_seconds=stall_seconds,
        hooks=Hooks(cancelled=cancelled),
    ).run()  # fmt: skip


def test_a_node_computes_another_try_of_a_product_that_was_cancelled(actor, node):
    out = np.zeros_like(A)
    actor.waits = True
    with pytest.raises(ExecutionCancelled):
        multiply(node, out, job="j-0", cancelled=lambda: True)
    actor.waits = False
    assert multiply(node, out, job="j-1", cancelled=lambda: False)["type"] == "succeeded"
    assert np.allclose(out, A @ B, atol=1e-3)


def test_a_b_that_two_products_find_gone_is_sent_once_more(actor, node):
    outs = [np.zeros_like(A) for _ in range(3)]
    multiply(node, outs[0], job="j-0", b_key="kept", cancelled=lambda: False)
    actor.engine.forget("kept")  # as if the engine had started again
    found, sent = threading.Event(), threading.Event()

    def wait_for_other():
        found.set()
        sent.wait()
        return False

    actor.waits = True
    late = threading.Thread(
        target=multiply, args=(node, outs[1]),
        kwargs={"job": "k-0", "b_key": "kept", "cancelled": wait_for_other},
    )  # fmt: skip
    late.start()
    found.wait()  # its first blocks were answered: B is gone
    actor.waits = False
    multiply(node, outs[2], job="l-0", b_key="kept", cancelled=lambda: False)
    sent.set()
    late.join()
    assert all(np.allclose(out, A @ B, atol=1e-3) for out in outs)
    begun = [call for call in actor.calls if call[0] == "keep" and call[3] == 0]
    assert len(begun) == 2


@contextmanager
def sending_b(node):
    """Another product sends B, and still uses it."""
    with node.operands.use("kept", B.nbytes, keep=True) as resident, resident.sending:
        yield


def test_a_product_that_waits_for_b_too_long_gives_the_node_up(node, monkeypatch):
    import ray

    killed: list[tuple[Any, bool]] = []

    def kill(actor, *, no_restart):
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
