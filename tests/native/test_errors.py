"""Errors come back from other processes as they were raised."""

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

import wavetrim
from wavetrim.cpu.errors import OperandError
from wavetrim.kernels.errors import UnknownKernel
from wavetrim.native.errors import WavetrimError
from wavetrim.scheduler.errors import ExecutionError, FieldError, PlanError

ERRORS = (
    PlanError("f", 9, "0…4"),
    OperandError("a", "read-only", "writable"),
    UnknownKernel("kernel", "fastest", "one of the catalog"),
    ExecutionError("the GPU is gone", poisoned=True),
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_copy_of_an_error_has_all_that_it_had(error: WavetrimError) -> None:
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert vars(other) == vars(error)


def test_a_refused_product_comes_back_from_a_pool_of_processes() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        refused = pool.submit(wavetrim.matmul, [1.0], [1.0, 2.0]).exception(60)
    assert isinstance(refused, FieldError)
    assert str(refused) == "shape of b is (2,); it must be (1,), as a has 1 columns"
