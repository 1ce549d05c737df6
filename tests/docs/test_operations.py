"""docs/operations.md names tests, settings and metrics that exist, and sums up tries."""

import re

from benchmarks.common.plots import DOCS
from benchmarks.common.tables import ROOT
from benchmarks.settings import SETTING_GROUPS
from wavetrim.service.settings import Settings

SOURCES = ("metrics", "gauges")
PAGE = (DOCS / "operations.md").read_text(encoding="utf-8")


def test_every_test_that_the_page_names_exists() -> None:
    tests = "".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 10
    assert not [name for name in named if f"def {name}(" not in tests]


def test_every_setting_that_the_page_names_exists() -> None:
    settings = {f"WAVETRIM_{name.upper()}" for name in Settings.model_fields}
    assert set(re.findall(r"WAVETRIM_[A-Z_]+[A-Z]", PAGE)) <= settings


def test_every_metric_that_the_page_names_exists() -> None:
    metrics = "".join((ROOT / "service/telemetry" / f"{name}.py").read_text() for name in SOURCES)
    for name in re.findall(r"`(wavetrim_\w+?)(?:_total)?[`{]", PAGE):
        assert f'"{name}"' in metrics


def test_every_setting_is_in_one_group_of_its_page() -> None:
    listed = [name for names in SETTING_GROUPS.values() for name in names]
    assert sorted(listed) == sorted(Settings.model_fields)
