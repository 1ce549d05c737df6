"""The order of products: callers take turns by work, and within a caller short ones go first."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavetrim.service.jobs.queue import find_ratio, rank

NOW = 1000.0


@dataclass(frozen=True)
class Product:
    caller: str = "ada"
    since: float = NOW
    predicted_seconds: float = 1.0
    priority: int = 0


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


def test_short_products_go_first_until_a_long_one_has_waited_for_long():
    long = Product(since=NOW - 10, predicted_seconds=10)
    short = Product(since=NOW - 0.2, predicted_seconds=0.1)
    new = Product(predicted_seconds=0.1)
    assert order([new, long, short]) == [short, long, new]


def test_equal_products_go_by_age():
    waiting = [Product(since=NOW - age) for age in (1, 3, 2)]
    assert [NOW - one.since for one in order(waiting)] == [3, 2, 1]


def test_callers_take_turns_by_work():
    flood = [Product(caller="ada", since=NOW - 9) for _ in range(80)]
    others = [Product(caller="bob", predicted_seconds=2.0) for _ in range(3)]
    callers = [one.caller for one in order([*flood, *others])][:9]
    assert callers == ["ada", "bob", "ada", "ada", "bob", "ada", "ada", "bob", "ada"]


def test_who_was_served_less_goes_first_whatever_the_priorities():
    mine, urgent = Product(caller="ada"), Product(caller="bob", priority=1000)
    assert order([urgent, mine], {"ada": 1.0, "bob": 1.1}) == [mine, urgent]


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
