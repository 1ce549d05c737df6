"""Where products go, and how they are cut: pure decisions."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from wavetrim.scheduler.cluster.node_operands import STORE_SHARE, cut_rows
from wavetrim.scheduler.engine.answer import merge_successes
from wavetrim.scheduler.planning.placing import Network, Offer

SIZES = st.integers(1, 10**6)


@given(rows=st.integers(1, 5000), row_bytes=SIZES, store=SIZES, seconds=st.floats(0, 100))
def test_blocks_cover_all_rows_and_none_is_larger_than_its_part_of_the_store(
    rows, row_bytes, store, seconds
):
    for blocks in (
        cut_rows(rows, row_bytes, store_bytes=store, seconds=seconds),
        cut_rows(rows, row_bytes, store_bytes=store),
    ):
        assert blocks[0].start == 0
        assert blocks[-1].stop == rows
        assert all(a.stop == b.start for a, b in pairwise(blocks))
        most_rows = max(1, -(-max(row_bytes, store // STORE_SHARE) // row_bytes))
        assert max(map(len, blocks)) <= most_rows


def test_a_node_pays_for_the_network_and_for_its_other_work():
    traffic = {"b_bytes": 10**8, "in_bytes": 2 * 10**8, "out_bytes": 10**8}
    network = Network(1.0, 1e8, 1e7)
    seconds = {computing: network.find_seconds(computing, **traffic) for computing in (0.5, 60.0)}
    assert seconds == {0.5: 1 + 1 + 10, 60.0: 1 + 1 + 60}  # copies are hidden, or computing is
    assert Offer("far", 62.0, busy_seconds=7.0).end_seconds == 69.0


def test_blocks_are_one_answer():
    def event(rows, **verification):
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

    merged = merge_successes([event(1), event(2, recomputed_on="cpu", wrong_rows=1)], seconds=9.0)
    assert merged["plan"] == {"f": 3, "kernel": None, "predicted": {"total_seconds": 2.0}}
    assert merged["timings"]["cpu_seconds"] == 4.0
    assert (merged["timings"]["f_actual"], merged["timings"]["total_seconds"]) == (3, 9.0)
    found = merged["verification"]
    assert (found["max_error"], found["elements_checked"], found["wrong_rows"]) == (0.2, 3, 1)
    assert (found["caught_probability"], found["recomputed_on"]) == (0.5, "cpu")
