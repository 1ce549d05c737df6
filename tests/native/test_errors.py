"""Errors come back from other processes, which pickle them, as they were raised."""

import copy
import pickle

import pytest

from wavetrim.cpu.errors import OperandError
from wavetrim.kernels.errors import UnknownKernel
from wavetrim.scheduler.errors import ExecutionError, PlanError

ERRORS = (
    PlanError("f", 9, "0…4"),
    OperandError("a", "read-only", "writable"),
    UnknownKernel("kernel", "fastest", "one of the catalog"),
    ExecutionError("the GPU is gone", poisoned=True),
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_copy_of_an_error_has_all_that_it_had(error):
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert vars(other) == vars(error)
