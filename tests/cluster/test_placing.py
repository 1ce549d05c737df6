"""Where products go, and how they are cut: pure decisions."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavetrim.scheduler.cluster.blocks import STORE_SHARE, cut_operand, cut_rows
from wavetrim.scheduler.engine.messages import Operand
from wavetrim.scheduler.engine.parts import merge_events
from wavetrim.scheduler.planning.placing import (
    SPREAD_GAIN,
    Network,
    Offer,
    SampledCurve,
    Traffic,
    choose_shares,
    sample_curve,
)

SIZES = st.integers(1, 10**6)


@given(rows=st.integers(1, 5000), row_bytes=SIZES, store=SIZES, seconds=st.floats(0, 100))
def test_blocks_cover_all_rows_and_none_is_larger_than_its_part_of_the_store(
    rows: int, row_bytes: int, store: int, seconds: float
) -> None:
    for blocks in (
        cut_rows(rows, row_bytes, store_bytes=store, seconds=seconds),
        cut_operand(rows, row_bytes, store_bytes=store),
    ):
        assert blocks[0].start == 0
        assert blocks[-1].stop == rows
        assert all(a.stop == b.start for a, b in pairwise(blocks))
        most_rows = max(1, -(-max(row_bytes, store // STORE_SHARE) // row_bytes))
        assert max(map(len, blocks)) <= most_rows


def make_curve(m: int, row_seconds: float, start_seconds: float) -> SampledCurve:
    return sample_curve(m, lambda rows: start_seconds + rows * row_seconds)


OFFERS = st.lists(
    st.tuples(st.floats(1e-6, 1e-2), st.floats(0, 0.1), st.sampled_from([0.0, 0.5, 5.0])),
    min_size=1,
    max_size=5,
)


@settings(max_examples=50)
@given(start=st.integers(0, 100), m=st.integers(1, 5000), speeds=OFFERS, may_spread=st.booleans())
def test_every_row_has_one_engine_and_none_alone_would_end_sooner(
    start: int, m: int, speeds: list[tuple[float, float, float]], may_spread: bool
) -> None:
    offers = [
        Offer(str(index), make_curve(m, row, first), busy_seconds=busy)
        for index, (row, first, busy) in enumerate(speeds)
    ]
    shares = choose_shares(range(start, start + m), offers, may_spread=may_spread)
    rows = [row for share in shares for row in share.rows]
    assert rows == list(range(start, start + m))
    alone = min(offer.find_end(m) for offer in offers)
    ends = {offer.engine: offer for offer in offers}
    end = max(ends[share.engine].busy_seconds + share.seconds for share in shares)
    assert end <= alone * (1 + 1e-9)
    if len(shares) > 1:
        assert may_spread
        assert end <= (1 - SPREAD_GAIN) * alone
        assert all(ends[share.engine].busy_seconds == 0 for share in shares)


def test_a_node_over_a_slow_network_gets_nothing_that_is_quicker_here() -> None:
    traffic = Traffic(b_bytes=10**8, in_row_bytes=4000, out_row_bytes=4000)
    curve = make_curve(1000, 1e-3, 0)

    def choose(*networks: Network) -> list[str]:
        nodes = [
            Offer(f"far {index}", curve, network, traffic) for index, network in enumerate(networks)
        ]
        shares = choose_shares(range(1000), [Offer("here", curve), *nodes], may_spread=True)
        return [share.engine for share in shares]

    slow, fast = Network(1e-3, 1e7, 1e7), Network(1e-3, 1e10, 1e10)
    assert choose(slow) == ["here"]
    assert choose(fast) == ["here", "far 0"]
    assert choose(slow, fast, slow) == ["here", "far 1"]


def test_nodes_that_would_only_share_the_network_are_left_out() -> None:
    traffic = Traffic(b_bytes=10**9, in_row_bytes=0, out_row_bytes=0)
    curve, network = make_curve(1000, 1e-3, 0), Network(1e-3, 1e10, 1e10)
    nodes = [Offer(f"far {index}", curve, network, traffic) for index in range(40)]
    shares = choose_shares(range(1000), [Offer("here", curve), *nodes], may_spread=True)
    assert 2 < len(shares) <= 8


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("gaps", [False, True])
def test_rows_of_an_operand_lie_where_they_lay(order: str, gaps: bool) -> None:
    memory = np.arange(20 * 12, dtype=np.float32)
    full = memory[: 20 * 12].reshape((20, 12), order=order)  # type: ignore[call-overload]
    strides = (full.strides[0], full.strides[1]) if gaps else None
    operand = Operand(1, 0, 20, 12, "float32", order == "F", strides)
    cut = operand.cut(range(5, 11))
    at = cut.strides_bytes or (12 * 4, 4)
    found = np.ndarray((cut.rows, 12), np.float32, memory.data, cut.offset_bytes, at)
    assert np.array_equal(found, full[5:11])


def test_columns_of_a_file_stay_whole() -> None:
    assert not Operand("a.npy", 128, 20, 12, "float32", fortran_order=True).can_be_cut
    assert Operand("a.npy", 128, 20, 12, "float32").can_be_cut


def test_parts_are_one_answer() -> None:
    def event(rows: int, **verification: object) -> dict[str, object]:
        checked = {
            "passed": True, "max_error": rows / 10, "tolerance": 1.0, "elements_checked": rows,
            "elements_compared": 1, "detectable_change": rows, "caught_probability": 1 / rows,
            "wrong_rows": 0, "recomputed_on": None, "seconds": 0.5, **verification,
        }  # fmt: skip
        return {
            "type": "succeeded",
            "plan": {"f": rows, "kernel": None, "predicted": {"total_seconds": 1.0}},
            "timings": {"cpu_seconds": 2.0, "kernel_seconds": None, "f_actual": rows},
            "verification": checked,
        }

    merged = merge_events([event(1), event(2, recomputed_on="cpu", wrong_rows=1)], seconds=9.0)
    assert merged["plan"] == {"f": 3, "kernel": None, "predicted": {"total_seconds": 2.0}}
    assert merged["timings"]["cpu_seconds"] == 4.0
    assert (merged["timings"]["f_actual"], merged["timings"]["total_seconds"]) == (3, 9.0)
    found = merged["verification"]
    assert (found["max_error"], found["elements_checked"], found["wrong_rows"]) == (0.2, 3, 1)
    assert (found["caught_probability"], found["recomputed_on"]) == (0.5, "cpu")
