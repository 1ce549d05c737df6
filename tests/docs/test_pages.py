"""Pages of docs/ name what the code has, and show what was measured; promises name tests."""

import ast
import re

import pytest
from PIL import Image

from benchmarks.common.plots import DOCS, KEY
from benchmarks.common.tables import README
from benchmarks.figures import PLOTS, SECTIONS, fill
from benchmarks.settings import SETTING_GROUPS
from docs.report_pages import KEPT, PAGE, RunError, fill_lessons, publish_runs
from tests.docs.test_readme import list_sections
from tests.environment import ROOT
from tests.lab.reports import read_banks
from wavetrim.kernels.catalog import list_kernels
from wavetrim.lab.reports.report import write_report
from wavetrim.scheduler.check.verify import Verification
from wavetrim.service.api.problems import NOT_READY, PROBLEMS
from wavetrim.service.api.v2.request import MOST_JSON_ELEMENTS
from wavetrim.service.settings import Settings

API, OPERATIONS, KERNELS = (
    (DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("api", "operations", "kernels")
)


def test_the_page_has_the_limit_of_the_protocol():
    assert f"{MOST_JSON_ELEMENTS:,}" in API


def test_the_page_explains_every_field_of_a_verification():
    names = set(Verification.__slots__) - {"passed", "tolerance"}
    assert {name for name in names if f"`{name}`" not in API} == set()


def test_the_table_has_every_status_of_a_refusal():
    cells = re.findall(r"^\| (\d{3}(?:, \d{3})*) \|", API, re.MULTILINE)
    named = {int(status) for cell in cells for status in cell.split(", ")}
    refused = {kind.status for kind in (NOT_READY, *PROBLEMS.values())}
    assert named == refused | {405, 504}, "405 comes from the router, 504 from a failed product"


def test_the_page_describes_every_kernel():
    for spec in list_kernels():
        assert f"\n**{spec.name}** " in KERNELS


def test_every_test_that_the_page_names_exists():
    tests = "".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", OPERATIONS))
    assert len(named) > 10
    assert not [name for name in named if f"def {name}(" not in tests]


def test_every_setting_that_the_page_names_exists():
    settings = {f"WAVETRIM_{name.upper()}" for name in Settings.model_fields}
    assert set(re.findall(r"WAVETRIM_[A-Z_]+[A-Z]", OPERATIONS)) <= settings


def test_every_metric_that_the_page_names_exists():
    files = (ROOT / "service" / folder / "metrics.py" for folder in ("telemetry", "api/machine"))
    metrics = "".join(file.read_text() for file in files)
    for name in re.findall(r"`(wavetrim_\w+?)(?:_total)?[`{]", OPERATIONS):
        assert f'"{name}"' in metrics


def test_every_setting_is_in_one_group_of_its_page():
    listed = [name for names in SETTING_GROUPS.values() for name in names]
    assert sorted(listed) == sorted(Settings.model_fields)


@pytest.mark.parametrize("name", SECTIONS)
def test_pages_show_the_figures_that_were_measured(name):
    text = SECTIONS[name][0].read_text(encoding="utf-8")
    assert fill(text, name) == text


@pytest.mark.parametrize("plot_shown", PLOTS, ids=lambda x: x.__module__)
def test_plots_show_the_figures_that_were_measured(plot_shown):
    pages = [README, *(ROOT / "docs").rglob("*.md")]
    shown = "".join(page.read_text(encoding="utf-8") for page in pages)
    plot = plot_shown()
    with Image.open(plot.file) as image:
        assert image.info[KEY] == plot.digest
    assert f"{plot.file.name})" in shown
    assert plot.render().startswith(b"\x89PNG")


def test_the_page_has_the_lessons_of_the_probes_that_are_kept():
    page = PAGE.read_text(encoding="utf-8")
    assert fill_lessons(page, KEPT) == page
    empty = "<!-- probed -->\n<!-- /probed -->\n"
    assert "No run is kept here yet." in fill_lessons(empty, KEPT / "none")


def test_a_probe_with_wrong_results_is_not_published(tmp_path):
    write_report(read_banks(right=False), tmp_path / "found")
    with pytest.raises(RunError, match=r"banks.csv: a result was wrong"):
        publish_runs(tmp_path / "found", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


PROMISES = (ROOT / "docs/promises.md").read_text(encoding="utf-8")
PROMISING = {"operations.md": set(), "jobs.md": set(), "api.md": {"The calls"}}
"""Pages whose sections promise something, each with the sections that promise nothing."""


def test_every_promise_names_tests_that_exist():
    rows = re.findall(r"^\| (?!Promise|---)(.+) \| (.+) \|$", PROMISES, re.MULTILINE)
    assert len(rows) > 80
    for promise, shown in rows:
        named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", shown)
        assert named, promise
        for file, name in named:
            assert name in list_tests(file), f"{promise}: {file} has no {name}"


@pytest.mark.parametrize("page", PROMISING)
def test_every_section_of_a_page_has_a_promise(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    code_left_out = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    sections = set(re.findall(r"^##+ (.+)$", code_left_out, re.MULTILINE)) - PROMISING[page]
    assert set(re.findall(rf"^## {page}: (.+)$", PROMISES, re.MULTILINE)) == sections


def test_every_fault_of_the_operations_page_names_a_test():
    section = list_sections(ROOT / "docs/operations.md")["what-is-promised"]
    table = section.partition("| Fault |")[2].partition("\n\n")[0]
    shown = [line.rsplit("|", 2)[1] for line in table.splitlines()[2:]]
    assert len(shown) > 10
    for cell in shown:
        assert re.search(r"`(test_\w+|tests/[\w/]+\.py)`", cell), cell


def list_tests(file):
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    return {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
