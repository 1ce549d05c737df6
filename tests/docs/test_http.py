"""docs/http.md and its plots show the figures that were measured, held against what is asked."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.common.results import ResultsError, write_document
from benchmarks.common.tables import README, RESULTS
from benchmarks.http.baselines.baseline import OURS
from benchmarks.http.judged import Judgement, judge
from benchmarks.http.plot import list_plots, pick_lines
from benchmarks.http.rows import Case, HttpResults, read_http_file, read_http_results
from benchmarks.http.tables import NOT_MEASURED, PAGE, SECTIONS, fill_page
from tests.benchmarks.http_figures import ABSENT, MS, invent_products, invent_results, make_row

INVENTED = invent_results()


def find_judgement(results: HttpResults, words: str) -> Judgement:
    """The one judgement whose bound has these words."""
    (found,) = (one for one in judge(results) if words in one.what)
    return found


def test_the_page_shows_the_figures_that_were_measured() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert fill_page(page, read_http_results(RESULTS)) == page


def test_plots_show_the_figures_that_were_measured() -> None:
    readme = README.read_text(encoding="utf-8")
    plots = [plot for one in read_http_results(RESULTS) for plot in list_plots(one)]
    assert all(plot.is_current() for plot in plots)
    assert any(f"](docs/{plot.file.name})" in readme for plot in plots)


def test_without_results_the_page_says_so() -> None:
    page = "".join(f"<!-- http-{name} -->\n<!-- /http-{name} -->\n" for name in SECTIONS)
    filled = fill_page(page, [])
    assert filled.count(NOT_MEASURED) == len(SECTIONS)
    assert not re.search(r"\d", filled)


def test_every_section_is_filled() -> None:
    page = "".join(f"<!-- http-{name} -->\n<!-- /http-{name} -->\n" for name in SECTIONS)
    filled = fill_page(page, [INVENTED])
    assert fill_page(filled, [INVENTED]) == filled
    machine = "NVIDIA Abacus, driver 1.2, with 16 cores of Beads"
    caption = f"{machine}; NumPy 5.6, FastAPI 7, uvicorn 8; commit abc:"
    assert filled.count(caption) == len(SECTIONS)
    assert "do not hold" not in filled


def test_tables_show_times_rates_transfers_jobs_and_what_is_absent() -> None:
    shown = {name: render(INVENTED) for name, render in SECTIONS.items()}
    assert "| 1 | 4096² | 64 | 76.8 | 44.8 | 51.2 | 128 | 320 | 384 |" in shown["products"]
    assert "| 16 | 64² | float32 | wavetrim | 13333 | 1.2 | 1.32 | 1.8 | 0 | 15 |" in shown["rates"]
    assert "| upload | 1024 | wavetrim | 2.68 | 16.0 |" in shown["transfers"]
    assert "| download | 1024 | sink | 5.65 |  |" in shown["transfers"]
    job = "| job, wavetrim | 4096 | float32 | 40 | 39 | 5 | 25 | 0 → 0 | GET with wait=30 |"
    assert job in shown["jobs"]
    split = "| split, wavetrim | 16384x16384x256 | float32 | 20 | 19 |  |  | 2150 → 2100 |  |"
    assert split in shown["jobs"]
    assert shown["absent"] == f"- {ABSENT[0]}"


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
    assert "| job with its result in memory" in SECTIONS["bounds"](INVENTED)
    assert "not measured" in SECTIONS["bounds"](INVENTED)


def test_one_case_beyond_a_bound_breaks_it() -> None:
    case = Case("product", 256, "float32", 1)
    slow = [row for row in invent_products(256, 1) if row.baseline != OURS]
    added = [*slow, make_row(case, OURS, 9.0, floor_seconds=4 * MS, refused=1)]
    results = replace(INVENTED, rows=(*INVENTED.rows, *added))
    for words in ("times the floor", "never slower than numpy"):
        judgement = find_judgement(results, words)
        assert judgement.holds is False
        assert judgement.met == len(judgement.figures) - 1
        assert judgement.worst is not None
        assert judgement.worst.where == str(case)
    crowd = Case("product", 64, "float32", 512)
    others = (row for row in INVENTED.rows if row.case != crowd)
    refused = replace(INVENTED, rows=(*others, make_row(crowd, OURS, 1.2, refused=1)))
    assert find_judgement(refused, "requests refused").holds is False


def test_two_cores_are_held_to_their_rates_and_not_to_a_gpus() -> None:
    results = invent_results(gpu=False)
    assert find_judgement(results, "2 cores: median").holds is False
    assert find_judgement(results, "a second, one client").holds is False
    assert find_judgement(results, "a second, 16 clients").holds is True
    assert not [one for one in judge(results) if "cupy" in one.what]
    assert not [one for one in judge(INVENTED) if "2 cores" in one.what]


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "http-abacus.json"
    write_document(file, **INVENTED.document, absent=INVENTED.absent, rows=INVENTED.rows)
    again = read_http_file(file)
    assert again.absent == INVENTED.absent
    assert again.document == INVENTED.document
    assert [row.case for row in again.rows] == [row.case for row in INVENTED.rows]
    rows = json.loads(file.read_text())["rows"]
    asked = {"what", "size", "dtype", "clients", "baseline", "p50_seconds", "p95_seconds", "rate"}
    assert all(asked <= set(row) for row in rows)


@pytest.mark.parametrize("content", ["{", "{}", '{"rows": [{}], "absent": []}'])
def test_a_broken_file_is_refused_in_words(tmp_path: Path, content: str) -> None:
    (tmp_path / "http-broken.json").write_text(content)
    with pytest.raises(ResultsError, match=r"http-broken.*`make bench-http`"):
        read_http_results(tmp_path)


def test_the_plot_names_its_figures(tmp_path: Path) -> None:
    (plot,) = list_plots(INVENTED)
    plot = replace(plot, file=tmp_path / "plot.png")
    plot.file.write_bytes(plot.render())
    assert plot.is_current()
    assert pick_lines(INVENTED)["floor"] == [(64, pytest.approx(1.0)), (4096, pytest.approx(64.0))]
    (other,) = list_plots(replace(INVENTED, rows=INVENTED.rows[:5]))
    assert not replace(other, file=plot.file).is_current()
