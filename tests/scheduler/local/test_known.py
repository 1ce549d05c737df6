"""Which products take the way of an earlier one, beside a GPU."""

from dataclasses import replace

import numpy as np

from wavetrim.kernels.transfer.pinned import locate
from wavetrim.scheduler.local.known import UNSTOPPED_SECONDS, KnownProducts, ProductKind
from wavetrim.scheduler.local.machine import LocalMachine, LocalOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.problem import GemmProblem
from wavetrim.scheduler.profile.corrections import LEAST_RUNS, Corrections
from wavetrim.scheduler.profile.store import find_profile


def test_a_kind_is_that_of_plain_operands_of_its_shapes_that_share_no_memory():
    a, b, c = (np.zeros(shape, "float32") for shape in ((5, 3), (3, 7), (5, 7)))
    kind = ProductKind(a.shape, b.shape, a.dtype, 1.0, is_pinned=False, crowd="quiet")
    operands, memory = kind.describe_operands(), np.empty(50, "float32")
    assert operands.locate(a, b, c) == locate(a, b, c)[0]
    overlapping = memory[:35].reshape(5, 7), memory[20:41].reshape(3, 7)
    for others in (
        (a.astype("float64"), b, c),
        (np.asfortranarray(a), b, c),
        (a, b, c[:4]),
        (a, overlapping[1], overlapping[0]),
        (a, b, np.empty((5, 14), "float32")[:, ::2]),
    ):
        assert operands.locate(*others) is None


def test_a_short_way_of_the_cpu_computes_and_its_time_is_noted(tmp_path):
    machine = LocalMachine(LocalOptions(tmp_path, devices="none", cpu_threads=2))
    known = KnownProducts(machine, machine.planned)
    rng = np.random.default_rng(1)
    a, b = rng.random((997, 701)), rng.random((701, 1003))

    def ask(c):
        return known.ask(a, b, c, alpha=1.0, beta=0.0, f="auto")

    asked = ask(None)
    assert not known.multiply(asked), "no product of its kind was computed"
    problem = GemmProblem(997, 1003, 701, "float64")
    assumed = find_profile("cpu", devices=(), directory=None, cpu_threads=2)
    plan = choose_plan(problem, replace(assumed, corrections=Corrections()))
    assert plan.predicted.total_seconds < UNSTOPPED_SECONDS
    known.keep_plan(asked.kind, plan)
    done = 0
    for _ in range(20):
        asked = ask(np.full((997, 1003), np.nan))
        if known.multiply(asked):
            done += 1
            np.testing.assert_allclose(asked.c, a @ b, rtol=1e-12)
    assert 16 <= done < 20, "some are chosen anew"
    (factor,) = plan.profile.corrections.list_all().values()
    assert factor.runs >= LEAST_RUNS, "their times are noted"
    machine.end()
