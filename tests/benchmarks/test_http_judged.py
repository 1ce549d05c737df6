"""The bounds of products over HTTP, and which figures they are held to."""

from dataclasses import replace

import pytest

from benchmarks.http.baselines.baseline import Name
from benchmarks.http.judged import Judgement, judge, render_judgements
from benchmarks.http.rows import Case, HttpResults
from tests.benchmarks.http_figures import MS, invent_products, invent_results, make_row

INVENTED = invent_results()


def find_judgement(results: HttpResults, words: str) -> Judgement:
    """The judgement whose bound has these words."""
    (found,) = (one for one in judge(results) if words in one.what)
    return found


def test_bounds_are_judged_by_their_worst_case() -> None:
    floor = find_judgement(INVENTED, "times the floor")
    assert (floor.met, len(floor.figures), floor.holds) == (2, 2, True)
    upload = find_judgement(INVENTED, "upload")
    assert upload.holds is False
    assert upload.worst is not None
    assert upload.worst.found == pytest.approx(0.75)
    download = find_judgement(INVENTED, "download")
    assert download.holds is True
    job = find_judgement(INVENTED, "longer of product and disk")
    assert job.worst is not None
    assert (job.worst.found, job.worst.asked) == (pytest.approx(40), pytest.approx(35))
    assert job.holds is False
    rows = find_judgement(INVENTED, "rows that the CPU computed")
    assert (rows.holds, [figure.found for figure in rows.figures]) == (True, [2100])
    split = find_judgement(INVENTED, "link-bound jobs: speed")
    assert split.worst is not None
    assert split.worst.found == pytest.approx(21 / 19)
    assert find_judgement(INVENTED, "99th percentile").holds is True
    assert find_judgement(INVENTED, "requests refused").holds is True
    assert find_judgement(INVENTED, "4096² float32 through a lease").holds is False
    assert find_judgement(INVENTED, "times as fast as cupy").holds is True


def test_what_was_not_measured_is_not_judged() -> None:
    memory = find_judgement(INVENTED, "in memory")
    assert (memory.worst, memory.holds) == (None, None)
    table = render_judgements(judge(INVENTED))
    assert (
        "| job with its result in memory: product + 3 ms, in ms |  |  |  |  | not measured |"
        in table
    )


def test_one_case_beyond_a_bound_fails_it() -> None:
    case = Case("product", 256, "float32", 1)
    slow = [row for row in invent_products(256, 1) if row.baseline != Name.OURS]
    added = [*slow, make_row(case, Name.OURS, 9.0, floor_seconds=4 * MS, refused=1)]
    results = replace(INVENTED, rows=(*INVENTED.rows, *added))
    for words in ("times the floor", "never slower than numpy"):
        judgement = find_judgement(results, words)
        assert judgement.holds is False
        assert judgement.met == len(judgement.figures) - 1
        assert judgement.worst is not None
        assert judgement.worst.where == str(case)
    crowd = Case("product", 64, "float32", 512)
    others = (row for row in INVENTED.rows if row.case != crowd)
    refused = replace(INVENTED, rows=(*others, make_row(crowd, Name.OURS, 1.2, refused=1)))
    assert find_judgement(refused, "requests refused").holds is False


def test_two_cores_are_judged_by_their_own_bounds() -> None:
    results = invent_results(gpu=False)
    assert find_judgement(results, "2 cores: median").holds is False
    assert find_judgement(results, "a second, one client").holds is False
    assert find_judgement(results, "a second, 16 clients").holds is True
    assert not [one for one in judge(results) if "cupy" in one.what]
    assert not [one for one in judge(INVENTED) if "2 cores" in one.what]
