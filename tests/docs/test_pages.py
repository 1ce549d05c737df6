"""Pages of docs/ name what the code has: limits, fields, statuses, kernels, tests and settings."""

import re

from benchmarks.common.plots import DOCS
from benchmarks.common.tables import ROOT
from benchmarks.settings import SETTING_GROUPS
from wavetrim.kernels.catalog import list_kernels
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
