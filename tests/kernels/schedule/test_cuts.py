"""The time of a list of parts: what bounds it, and the fastest of a few lists."""

from dataclasses import replace
from itertools import pairwise
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.schedule.plans import build_problems
from tests.rates import make_rates
from wavetrim.kernels.schedule.cuts import Rates, find_bound, find_fastest, list_cuts, time_cut
from wavetrim.kernels.schedule.panels import Cut, PanelProblem, take_whole
from wavetrim.kernels.schedule.steps import cut_steps

MEMORY_BYTES = 1 << 36
SIZES = st.integers(1, 300) | st.integers(1, 9000)
many = settings(max_examples=60)
problems = build_problems(st.tuples(SIZES, SIZES, SIZES))
changes = st.fixed_dictionaries(
    {
        "in_bytes_per_second": st.floats(1e9, 1e11),
        "out_bytes_per_second": st.floats(1e9, 1e11),
        "duplex": st.floats(1, 2),
        "step_seconds": st.floats(0, 1e-4),
        "wave_seconds": st.floats(0, 1e-5),
        "memory_bytes_per_second": st.floats(3e11, 5e12),
        "peers": st.sampled_from([0, 0, 1, 3]),
        "peer_bytes_per_second": st.floats(1e10, 3e11),
    }
)
BANDWIDTHS = [
    "in_bytes_per_second", "out_bytes_per_second", "memory_bytes_per_second",
    "peer_bytes_per_second",
]  # fmt: skip
SIMPLE = Rates(
    in_bytes_per_second=4.0, out_bytes_per_second=4.0, duplex=1.0, call_seconds=10.0,
    step_seconds=1.0, row_seconds=0.0, launch_seconds=1.0, wave_seconds=0.0, depth_seconds=1.0,
    memory_bytes_per_second=inf,
)  # fmt: skip
"""An element of float32 is copied in a second; a kernel takes one, and one for each wave and k."""


def trace(problem, cut, rates):
    spans = []
    return time_cut(problem, cut, rates, MEMORY_BYTES, spans), spans


def test_an_example_by_hand():
    """C of 2 x 1, K = 2, by a GPU that computes one element at a time."""
    problem = PanelProblem(2, 1, 2, 4, tile_m=1, tile_n=1, tile_k=1, slots=1)
    seconds, spans = trace(problem, Cut(first_rows=1, panel_rows=1, depth=2), SIMPLE)
    assert [span[1:] for span in spans] == [
        ((10, 15), (15, 18), (18, 20)),  # four elements, one wave of two k, one element
        ((15, 18), (18, 21), (21, 23)),  # B is there
    ]
    assert seconds == 23
    seconds, spans = trace(problem, Cut(first_rows=1, panel_rows=1, depth=1), SIMPLE)
    assert [span[1:] for span in spans] == [
        ((10, 13), (13, 15), None),
        ((13, 16), (16, 18), (18, 20)),  # added to C
        ((16, 19), (19, 22), (22, 24)),
    ]
    assert seconds == 24
    both_ways = replace(SIMPLE, duplex=2.0, depth_seconds=0.0)
    _, spans = trace(replace(problem, m=3), Cut(1, 1, 2), both_ways)
    assert (spans[0].copy_out, spans[1].copy_in) == ((16, 18), (15, 20)), "18 but for the copy out"


@many
@given(problem=problems, changes=changes)
def test_queues_take_parts_in_order_and_end_with_the_product(problem, changes):
    rates = make_rates(problem, **changes)
    cut = find_fastest(problem, rates, MEMORY_BYTES).cut
    seconds, spans = trace(problem, cut, rates)
    copies_out = [span.copy_out for span in spans if span.copy_out is not None]
    for queue in ([one.copy_in for one in spans], [one.kernel for one in spans], copies_out):
        assert all(before[1] <= after[0] for before, after in pairwise(queue))
        assert sum(end - begin for begin, end in queue) <= seconds * (1 + 1e-9)
    assert copies_out[-1][1] == seconds
    steps = cut_steps(problem, cut, MEMORY_BYTES).steps
    for step, (part, copy_in, kernel, copy_out) in zip(steps, spans, strict=True):
        assert (step.rows, step.columns, step.depth) == part[:3]
        assert rates.call_seconds <= copy_in[0] < copy_in[1] <= kernel[0] < kernel[1]
        assert (copy_out is not None) == step.last
        assert copy_out is None or kernel[1] <= copy_out[0] < copy_out[1]
        assert step.follows < 0 or spans[step.follows].kernel[1] <= copy_in[0]
        left = spans[step.c_follows].copy_out if step.c_follows >= 0 else None
        assert left is None or left[1] <= kernel[0]


@many
@given(problem=problems, changes=changes)
def test_the_fastest_list_is_no_faster_than_its_longest_queue_and_no_slower_than_one_step(
    problem, changes
):
    rates = make_rates(problem, **changes)
    fastest = find_fastest(problem, rates, MEMORY_BYTES)
    assert time_cut(problem, fastest.cut, rates, MEMORY_BYTES) == fastest.seconds
    assert find_bound(problem, problem.m, rates) <= fastest.seconds * (1 + 1e-9)
    one_step_seconds = time_cut(problem, take_whole(problem), rates, MEMORY_BYTES)
    assert fastest.seconds <= one_step_seconds
    assert len(list(list_cuts(problem, rates))) <= 12


@many
@given(
    problem=problems, changes=changes, times=st.floats(1, 10), bandwidth=st.sampled_from(BANDWIDTHS)
)
def test_more_bandwidth_is_never_slower(problem, changes, times, bandwidth):
    """Where the directions of the link are independent."""
    rates = make_rates(problem, **changes | {"duplex": 1.0})
    faster = replace(rates, **{bandwidth: times * getattr(rates, bandwidth)})
    cut = find_fastest(problem, rates, MEMORY_BYTES).cut
    seconds, less_seconds = (time_cut(problem, cut, one, MEMORY_BYTES) for one in (rates, faster))
    assert less_seconds <= seconds * (1 + 1e-9)
    slower = replace(rates, call_seconds=rates.call_seconds + 1e-3)
    assert time_cut(problem, cut, slower, MEMORY_BYTES) >= (seconds + 1e-3) * (1 - 1e-9)
