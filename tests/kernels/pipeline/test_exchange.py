"""The exchange of B between GPUs: pieces cover B, and none is awaited that never comes."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from wavetrim.kernels.pipeline.exchange import Exchange

NEEDS = ((range(64), range(32), 32), (range(64, 100), range(32), 32))


def join_all(needs):
    exchange = Exchange(range(len(needs)))
    with ThreadPoolExecutor(len(needs)) as threads:
        joined = [threads.submit(exchange.join, seat, one) for seat, one in enumerate(needs)]
        return [one.result(timeout=10) for one in joined]


def test_b_is_exchanged_if_all_gpus_need_the_same_parts():
    assert join_all([NEEDS] * 3) == [True] * 3
    assert join_all([NEEDS, NEEDS[:1]]) == [False] * 2
    assert join_all([NEEDS, None, NEEDS]) == [False] * 3


def test_a_gpu_that_leaves_before_it_joins_blocks_no_other():
    exchange = Exchange([0, 0])
    with ThreadPoolExecutor(1) as threads:
        joined = threads.submit(exchange.join, 0, NEEDS)
        exchange.leave(1)
        assert joined.result(timeout=10) is False


def test_find_waits_for_a_piece_until_it_comes_or_its_gpu_leaves():
    exchange = Exchange([0, 0])
    with ThreadPoolExecutor(2) as threads:
        first, second = (threads.submit(exchange.find, 1, number) for number in (0, 1))
        exchange.publish(1, 0, "piece")
        assert first.result(timeout=10) == "piece"
        assert not second.done()
        exchange.leave(1)
        assert second.result(timeout=10) is None
    assert exchange.find(1, 0) == "piece"


@pytest.mark.parametrize("gpus", [1, 2, 3, 8])
@pytest.mark.parametrize("depth", [1, 2, 64, 1000])
def test_pieces_cover_the_rows_of_a_step_and_are_about_equal(gpus, depth):
    (seat, *_) = Exchange(range(gpus)).seats
    pieces = seat._divide(depth)
    assert [row for piece in pieces for row in piece] == list(range(depth))
    assert max(map(len, pieces)) - min(map(len, pieces)) <= 1
