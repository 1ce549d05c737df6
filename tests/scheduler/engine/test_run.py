"""One run of the engine: C copied, factors read, failures put into words."""

import os

import numpy as np
import pytest

from tests.matrices import make_matrix
from wavetrim.scheduler.engine.answer import describe_failure
from wavetrim.scheduler.engine.messages import Operand
from wavetrim.scheduler.engine.operands import OperandFileError, open_operand
from wavetrim.scheduler.engine.run import fill_rows
from wavetrim.scheduler.errors import ExecutionError, PlanError, VerificationFailed
from wavetrim.scheduler.execution.rows import Hooks

SHAPES = [(301, 40_001), (1, 12_000_001), (12_000_001, 1)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("out_order", ["C", "F"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_c_is_copied_in_blocks_whatever_its_order(order, out_order, shape):
    c = make_matrix(*shape, "float32", seed=1, order=order)
    out = np.full(c.shape, np.nan, "float32", order=out_order)
    asked = []
    fill_rows(out, c, Hooks(cancelled=lambda: bool(asked.append(1))))
    assert np.array_equal(out, c)
    assert 1 < len(asked) < 10


@pytest.mark.parametrize(
    ("error", "kind", "retryable", "poisoned"),
    [
        (PlanError("f", 9, "at most 8"), "plan", False, False),
        (ExecutionError("launch failed"), "device", True, False),
        (ExecutionError("illegal address", poisoned=True), "device", True, True),
        (MemoryError("Unable to allocate 9 TiB"), "memory", True, False),
        (VerificationFailed("max_error is 9"), "verification", True, False),
        (FileNotFoundError("/secret/path"), "internal", True, False),
    ],
)
def test_every_error_becomes_a_failed_event(error, kind, retryable, poisoned):
    event = describe_failure(error)
    message = event.pop("message")
    assert event == {
        "type": "failed", "kind": kind, "retryable": retryable, "poisoned": poisoned,
    }  # fmt: skip
    assert "/secret/path" not in message
    assert message


@pytest.mark.timeout(20)
@pytest.mark.parametrize("writable", [False, True])
def test_a_pipe_is_refused_without_waiting_for_its_other_end(tmp_path, writable):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(OperandFileError, match="it must be a regular file"):
        open_operand(Operand(str(path), 0, 3, 4, "float64"), None, writable=writable)


def test_a_symbolic_link_is_not_followed(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((3, 4)))
    (tmp_path / "link.npy").symlink_to(tmp_path / "a.npy")
    with pytest.raises(OSError, match="symbolic links"):
        open_operand(Operand(str(tmp_path / "link.npy"), 128, 3, 4, "float64"), None)


@pytest.mark.parametrize("writable", [False, True])
def test_a_file_that_is_too_short_is_refused_and_stays_as_long_as_it_was(tmp_path, writable):
    path = tmp_path / "short"
    path.write_bytes(bytes(899))
    operand = Operand(str(path), 100, 10, 10, "float64")
    limit = "short'; it must be a file of at least 900 bytes: it has 899"
    with pytest.raises(OperandFileError, match=limit):
        open_operand(operand, None, writable=writable)
    assert path.stat().st_size == 899
    path.write_bytes(bytes(900))
    assert open_operand(operand, None, writable=writable).shape == (10, 10)
