"""docs/kernels.md and the README's plot show the figures that were measured."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.common.results import ResultsError, write_document
from benchmarks.common.tables import README, RESULTS
from benchmarks.kernels.code_tables import fill_page as fill_code_tables
from benchmarks.kernels.ladder import plot_ladder
from benchmarks.kernels.rows import Results, read_results
from benchmarks.kernels.tables import PAGE, SECTIONS, fill_page, fill_readme
from tests.benchmarks.kernel_figures import invent_results, write_results
from wavetrim.kernels.catalog import list_kernels

INVENTED = invent_results()


def read_table(text: str, first: str) -> list[str]:
    """Cells of the first line that begins with this cell."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {first} |"))
    return line.strip("| ").split(" | ")


def test_the_page_shows_the_figures_that_were_measured() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert fill_page(page, read_results(RESULTS)) == page


def test_the_page_shows_what_the_profiler_found_and_the_machine_code_holds() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert fill_code_tables(page) == page


def test_the_readme_shows_the_figures_that_were_measured() -> None:
    readme = README.read_text(encoding="utf-8")
    assert fill_readme(readme, read_results(RESULTS)) == readme


@pytest.mark.parametrize("results", read_results(RESULTS), ids=lambda results: results.name)
def test_the_plot_shows_the_figures_that_were_measured(results: Results) -> None:
    assert plot_ladder(results).is_current()


def test_the_readme_has_a_plot() -> None:
    assert "](docs/ladder-h200.png)" in README.read_text(encoding="utf-8")


def test_the_page_tells_what_every_kernel_does() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for spec in list_kernels():
        assert f"\n**{spec.name}** " in page


def test_the_same_figures_give_the_same_plot(tmp_path: Path) -> None:
    plot = replace(plot_ladder(INVENTED), file=tmp_path / "ladder.png")
    plot.file.write_bytes(plot.render())
    assert plot.render() == plot.file.read_bytes()
    assert plot.is_current()
    assert not replace(plot_ladder(invent_results(pace=2.0)), file=plot.file).is_current()


def test_every_section_is_filled() -> None:
    page = "".join(f"<!-- {name} -->\n<!-- /{name} -->\n" for name in SECTIONS)
    filled = fill_page(page, [INVENTED])
    assert fill_page(filled, [INVENTED]) == filled
    assert filled.count("NVIDIA Abacus, driver 1.2, cuBLAS 3.4, NVRTC 5.6, commit abc") == len(
        SECTIONS
    )
    assert "do not hold" not in filled


def test_tables_show_rates_ratios_means_budgets_and_clocks() -> None:
    shown = {name: render(INVENTED) for name, render in SECTIONS.items()}
    assert read_table(shown["speed"], "bulk")[3:] == ["100.0"] * 5 + ["200%"]
    assert read_table(shown["suite"], "8192×512×4096")[1] == "50.0"
    assert read_table(shown["suite"], "4224³")[1] == "50.0"
    assert read_table(shown["means"], "bulk 128x256x16")[2:] == [
        "strict", *["2.00"] * 5, "0.50", "no: 16 of 16",
    ]  # fmt: skip
    assert read_table(shown["means"], "best strict entry")[3:8] == ["2.00"] * 5
    held = read_table(shown["budgets"], "bulk 128x256x16")[2:]
    assert held == ["100.0", "0.90 (0.81)", "1.00 (1.00)"]
    assert read_table(shown["power"], "bulk 128x256x16")[2:] == ["1700", "650"] * 3
    assert read_table(shown["choices"], "4096³")[3:] == ["128x256x16: 1.37", "", "128x256x16: 1.37"]


def test_the_readme_has_a_sentence_about_each_kind() -> None:
    filled = fill_readme("on an <!-- ladder -->old<!-- /ladder -->.", [INVENTED])
    assert re.sub("<.*?>", "", filled) == (
        "on an NVIDIA Abacus, times the speed of cuBLAS at 4096³, 8192³, 16384³: "
        "float32 strict 2.00, 2.00, 2.00; on tensor cores 4.00, 4.00, 4.00; "
        "float64 0.50, 0.50, 0.50."
    )


def test_results_are_read_as_they_are_written(tmp_path: Path) -> None:
    file = write_results(INVENTED, tmp_path)
    (read,) = read_results(tmp_path)
    assert read.rows == INVENTED.rows
    whole = {name: value for name, value in INVENTED.document.items() if name != "rows"}
    write_document(file, **whole, rows=read.rows)
    (again,) = read_results(tmp_path)
    assert {name: again.document[name] for name in whole} == whole
    assert [row.shape for row in again.rows] == [row.shape for row in read.rows]
    for ours, theirs in zip(again.rows, read.rows, strict=True):
        assert ours.median_seconds == pytest.approx(theirs.median_seconds, rel=1e-5)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda document: document.pop("rows"), "kernels-abacus.json: lacks 'rows'"),
        (lambda document: document["rows"][2].pop("tflops"), "Row 3 lacks 'tflops'"),
        (lambda document: document["hardware"].pop("driver"), "lacks 'driver'"),
        (lambda document: document["rows"].clear(), "it has no rows"),
    ],
)
def test_results_without_what_is_shown_are_refused(damage, message: str, tmp_path: Path) -> None:
    write_results(INVENTED, tmp_path, damage)
    with pytest.raises(ResultsError, match=f"{message}.*`make bench-kernels`"):
        read_results(tmp_path)


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"no kernels-<gpu>\.json"):
        read_results(tmp_path)
    (tmp_path / "kernels-x.json").write_text('{"rows": [', encoding="utf-8")
    with pytest.raises(ResultsError, match=r"kernels-x\.json: Expecting value"):
        read_results(tmp_path)
