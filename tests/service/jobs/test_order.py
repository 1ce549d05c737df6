"""The order of products: callers take turns by work, and within a caller short ones go first."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavetrim.service.clock import read_clock
from wavetrim.service.jobs.queue import Queue, find_ratio, rank

NOW = 1000.0


@dataclass(eq=False)
class Product:
    caller: str = "ada"
    since: float = NOW
    predicted_seconds: float = 1.0
    priority: int = 0
    queue: Queue | None = None


def order(waiting, served=None):
    return rank(waiting, served or {}, now=NOW, most=len(waiting))


products = st.builds(
    Product,
    caller=st.sampled_from(["ada", "bob", "eve"]),
    since=st.floats(0, NOW),
    predicted_seconds=st.floats(1e-5, 100),
    priority=st.integers(-1000, 1000),
)


@pytest.mark.parametrize(
    ("product", "ratio"),
    [
        (Product(), 1.0),
        (Product(since=NOW - 3), 4.0),
        (Product(since=NOW - 3, predicted_seconds=0.5), 7.0),
        (Product(since=NOW - 3, priority=100), 8.0),
        (Product(since=NOW - 3, priority=-100), 2.0),
        (Product(since=NOW + 9), 1.0),  # the clock was set back
    ],
)
def test_the_ratio_is_that_of_the_formula(product, ratio):
    assert find_ratio(product, NOW) == ratio


@given(waiting=st.lists(products, max_size=20), most=st.integers(0, 20))
def test_a_shorter_list_is_the_beginning_of_a_longer_one(waiting, most):
    everything = order(waiting)
    assert sorted(map(id, everything)) == sorted(map(id, waiting))
    few = rank(waiting, {}, now=NOW, most=most)
    assert list(map(id, few)) == list(map(id, everything[:most]))


@given(waiting=st.lists(products, min_size=1, max_size=20))
def test_no_caller_is_ahead_of_another_by_more_than_one_product(waiting):
    served = dict.fromkeys(("ada", "bob", "eve"), 0.0)
    left = list(waiting)
    for one in order(waiting):
        assert all(served[one.caller] <= served[other.caller] + 1e-9 for other in left)
        served[one.caller] += one.predicted_seconds
        left.remove(one)


def add(queue, caller, *, age=0.0):
    product = Product(caller, read_clock() - age)
    queue.add(product)
    return product


def begin_next(queue):
    product = queue.list_first(1)[0]
    queue.begin(product)
    return product.caller


def test_a_caller_that_comes_late_is_neither_last_nor_alone():
    queue = Queue()
    for _ in range(60):
        add(queue, "ada")
    for _ in range(30):
        begin_next(queue)
    for _ in range(9):
        add(queue, "bob")
    callers = [begin_next(queue) for _ in range(10)]
    assert 4 <= callers.count("bob") <= 6
    assert set(callers[:2]) == {"ada", "bob"}


def test_turns_are_not_saved_up_while_others_wait():
    queue = Queue()
    first = add(queue, "bob")
    for _ in range(40):
        add(queue, "ada")
    queue.begin(first)
    for _ in range(20):
        begin_next(queue)
    for _ in range(20):
        add(queue, "bob")
    callers = [begin_next(queue) for _ in range(10)]
    assert 4 <= callers.count("bob") <= 6


def test_what_was_computed_while_nobody_waited_costs_no_turn():
    queue = Queue()
    for _ in range(50):
        add(queue, "ada")
        begin_next(queue)
    add(queue, "ada", age=1.0)
    add(queue, "bob")
    assert begin_next(queue) == "ada"
