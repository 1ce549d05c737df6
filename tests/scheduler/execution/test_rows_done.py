"""Rows that are reported while a product runs."""

from itertools import pairwise

from wavetrim.scheduler.execution.rows_done import RowCounter, RowsDone


def test_fractions_of_rows_add_up_to_whole_rows() -> None:
    reports: list[RowsDone] = []
    counter = RowCounter(1000, reports.append)
    counter.add("gpu", 400)
    for _ in range(6000):
        counter.add("cpu", 0.1)
    assert reports[0] == RowsDone(1000, gpu=400)
    assert reports[-1] == RowsDone(1000, gpu=400, cpu=600)
    assert all(a.cpu < b.cpu for a, b in pairwise(reports))
