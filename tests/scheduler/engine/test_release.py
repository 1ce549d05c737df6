"""When a product ends, nothing refers to the caller's matrices any more.

Otherwise their memory would be freed later, during another product. To free page-locked memory
blocks the driver for a tenth of a second a gigabyte.
"""

import gc
import weakref

import numpy as np
import pytest

from tests.processes import wait_until
from tests.scheduler.profiles import find_executor_profile
from wavetrim.kernels.device import list_devices
from wavetrim.kernels.transfer.pinned import pin_matrix
from wavetrim.scheduler.execution.executor import Executor
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem


@pytest.fixture(autouse=True)
def without_collector():
    """References must be gone without the garbage collector."""
    gc.disable()
    yield
    gc.enable()


def make_operands(m, n, k, dtype, memory="pageable"):
    shapes = (m, k), (k, n), (m, n)
    if memory == "pinned":
        operands = [pin_matrix(*shape, dtype) for shape in shapes]
    else:
        operands = [np.empty(shape, dtype) for shape in shapes]
    for operand in operands:
        operand[...] = 1
    return operands


@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_the_cpu_keeps_no_matrix(open_pool, dtype):
    with open_pool(3) as pool:
        operands = make_operands(700, 500, 300, dtype)
        kept = [weakref.ref(operand) for operand in operands]
        pool.multiply(*operands)
        wait_for_release(operands, kept)


def wait_for_release(operands, kept):
    """Drop the operands; a thread that finds no block left may hold them for a moment."""
    operands.clear()
    wait_until(lambda: all(one() is None for one in kept))


@pytest.mark.gpu
@pytest.mark.parametrize("memory", ["pageable", "pinned"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("f", [0, 300, 2000, None])
def test_an_executor_keeps_no_matrix(kernel_cache, f, dtype, memory):
    with Executor(cache_dir=kernel_cache, devices=list_devices()) as executor:
        profile = find_executor_profile(executor)
        options = PlanOptions() if f is None else PlanOptions(f=f)
        plan = choose_plan(GemmProblem(2000, 1500, 1200, dtype, memory), profile, options)
        operands = make_operands(2000, 1500, 1200, dtype, memory)
        kept = [weakref.ref(operand) for operand in operands]
        executor.run(plan, *operands)
        wait_for_release(operands, kept)
