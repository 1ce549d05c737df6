"""Which devices compute which product: none starves, no device has two, none idles."""

import heapq
import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.profiles import find_preset_profile
from wavetrim.scheduler.options import PlanOptions
from wavetrim.scheduler.planning.choice import choose_plan
from wavetrim.scheduler.planning.device_sets import (
    CPU,
    WAIT_GAIN,
    Choice,
    assign_devices,
    list_choices,
)
from wavetrim.scheduler.problem import GemmProblem


def offer(gpu, cpu=None, *, gpus=2, team=None):
    """The choices of a product: one GPU, the CPU, all GPUs together."""
    choices = [Choice(frozenset({one}), gpu) for one in range(gpus)]
    if team is not None:
        choices.append(Choice(frozenset(range(gpus)), team))
    if cpu is not None:
        choices.append(Choice(frozenset({CPU}), cpu))
    return tuple(choices)


LARGE = offer(1.0, 40.0, team=0.55)


def place(*waiting, busy=None, gpus=2, behind=0):
    return assign_devices(waiting, busy or {}, gpus, behind=behind)


def test_a_product_for_both_gpus_waits_for_both_and_is_not_delayed():
    first, long, short = place(LARGE, offer(0.5, 90.0), offer(0.05, 90.0), busy={0: 0.06})
    assert (first.choice.device_set, first.begins) == ({0, 1}, 0.06)
    assert long.begins == pytest.approx(0.06 + 0.55)  # it would not end before
    assert (short.choice.device_set, short.begins) == ({1}, 0)  # it does


seconds = st.floats(0.001, 10)
lanes = st.frozensets(st.sampled_from([CPU, 0, 1, 2, 3]), min_size=1)
products = st.lists(st.builds(Choice, lanes, seconds), min_size=1, max_size=6)
queues = st.lists(products, min_size=1, max_size=6)
busies = st.dictionaries(st.sampled_from([CPU, 0, 1, 2, 3]), st.floats(0, 10))


@given(queues, busies)
def test_no_device_has_two_products(waiting, busy):
    begun = [one for one in assign_devices(waiting, busy, 4) if one.begins == 0]
    taken = list(itertools.chain.from_iterable(one.choice.device_set for one in begun))
    assert len(taken) == len(set(taken))
    assert all(busy.get(device, 0) <= 0 for device in taken)


@given(queues, products, busies)
def test_a_later_product_changes_no_earlier_reservation(waiting, later, busy):
    """Except for the number of GPUs that a product leaves to later ones."""
    narrowed = [[one for one in choices if len(one.device_set - {CPU}) <= 1] for choices in waiting]
    narrowed = [choices for choices in narrowed if choices]
    before = assign_devices(narrowed, busy, 4)
    assert assign_devices([*narrowed, later], busy, 4)[: len(before)] == before


@given(queues, busies)
def test_no_product_leaves_a_free_lane_in_which_it_would_end_sooner(waiting, busy):
    """Except where others are before it, or it leaves GPUs to others."""
    first = assign_devices(waiting, busy, 4)[0]
    if len(waiting) == 1 and first.begins > 0:
        free = [one for one in waiting[0] if all(busy.get(d, 0) <= 0 for d in one.device_set)]
        assert all(first.ends <= (1 - WAIT_GAIN) * one.seconds for one in free)


def simulate(arrivals, gpus):
    """Run products, each with its arrival and choices, as predicted, and by their numbers.

    Returns when each began, ended, and was first planned to begin.
    """
    events = [(at, number) for number, (at, _) in enumerate(arrivals)]
    heapq.heapify(events)
    waiting, ends, begun, done, promised = [], {}, {}, {}, {}
    while events:
        now, number = heapq.heappop(events)
        if number >= 0:
            waiting.append(number)
        if events and events[0][0] <= now:
            continue
        busy = {device: until - now for device, until in ends.items() if until > now + 1e-9}
        choices = [arrivals[one][1] for one in waiting]
        places = assign_devices(choices, busy, gpus) if waiting else ()
        for one, place in zip(tuple(waiting), places, strict=True):
            promised.setdefault(one, now + place.begins)
            if place.begins == 0:
                waiting.remove(one)
                begun[one], done[one] = now, now + place.choice.seconds
                ends.update(dict.fromkeys(place.choice.device_set, done[one]))
                heapq.heappush(events, (done[one], -1))
    return begun, done, promised


streams = st.lists(st.tuples(st.floats(0, 0.5), st.sampled_from([0.001, 0.1, 1.0])), max_size=40)


@given(streams)
def test_a_product_that_needs_all_devices_does_not_starve(gaps):
    """It begins no later than first planned: later products only fill what it leaves free."""
    at = itertools.accumulate(gap for gap, _ in gaps)
    needy = (Choice(frozenset({0, 1, CPU}), 1.0),)
    later = [(when, offer(size, 3 * size)) for when, (_, size) in zip(at, gaps, strict=True)]
    arrivals = [(0.0, offer(0.7, 5.0)), (0.0, offer(0.7, 5.0)), (0.1, needy), *later]
    begun, done, promised = simulate(arrivals, 2)
    assert len(done) == len(arrivals)
    earlier = [done[number] for number, (when, _) in enumerate(arrivals) if when <= 0.1]
    assert begun[2] <= max(*earlier, promised[2]) + 1e-6
    if all(when > 0.1 for when, _ in later):
        assert begun[2] == pytest.approx(0.7)


@given(st.lists(st.sampled_from([0.1, 0.5, 1.0]), min_size=4, max_size=40))
def test_no_gpu_idles_while_products_wait_for_one(sizes):
    """The last product ends within the bound of list scheduling."""
    arrivals = [(0.0, offer(size, team=0.6 * size)) for size in sizes]
    _, done, _ = simulate(arrivals, 2)
    assert max(done.values()) <= sum(sizes) / 2 + 1.1 * max(sizes)


@pytest.mark.parametrize("device_set", [{0}, {1}, {CPU}, {0, 1}, {1, CPU}])
def test_a_plan_for_a_lane_stays_in_it(device_set):
    profile = find_preset_profile("H100 SXM x2")
    problem = GemmProblem(8192, 8192, 8192, "float32", "pinned")
    assert choose_plan(problem, profile, device_set=frozenset(device_set)).device_set <= device_set


def list_here(gpus, problem, resident=()):
    profile = find_preset_profile(f"H100 SXM x{gpus}")
    names = [(number, one.device) for number, one in enumerate(profile.gpus)]

    def choose(device_set, b_resident):
        return choose_plan(
            replace(problem, b_resident=b_resident), profile, PlanOptions(), device_set
        )

    return list_choices(names, choose, frozenset(resident))


def test_only_the_gpus_that_have_b_take_less_time():
    thin = GemmProblem(256, 8192, 8192, "float32", "pinned")
    plain = {one.device_set: one.seconds for one in list_here(2, thin)}
    choices = {one.device_set: one for one in list_here(2, thin, resident=[1])}
    first, second = choices[frozenset({0})], choices[frozenset({1})]
    assert first.seconds == plain[frozenset({0})] == plain[frozenset({1})]
    assert second.seconds == second.settled_seconds == first.settled_seconds
    assert 2 * second.seconds < first.seconds
    (there,) = place(tuple(choices.values()))
    assert there.choice.device_set - {CPU} == {1}
