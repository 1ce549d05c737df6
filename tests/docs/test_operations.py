"""docs/operations.md names tests, settings and metrics that exist, and sums up tries."""

import re

from benchmarks.common.tables import ROOT
from benchmarks.faults import count_tries, sum_up
from benchmarks.readme import FAULT_GROUPS, OPERATIONS, SETTING_GROUPS, find_group
from tests.faults.catalog import FAULTS, SIGNALS
from tests.faults.ledger import Outcome
from wavetrim.service.settings import Settings

SOURCES = ("metrics", "gauges")
PAGE = OPERATIONS.read_text(encoding="utf-8")


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


def test_tries_are_counted_and_summed_up() -> None:
    counts = {name: count_tries(name, 200) for name in FAULTS}
    assert sum(counts[name] for name in SIGNALS) == 200
    assert min(counts.values()) > 0
    found = [Outcome(accepted=3, lost=1, seconds=2.0), Outcome(accepted=4, failed=1, seconds=4.0)]
    row = sum_up(found)
    assert (row["accepted"], row["lost"], row["damaged"], row["failed"]) == (7, 1, 0, 1)
    assert row["worst_seconds"] == 4
    assert sum_up([])["worst_seconds"] is None


def test_every_fault_is_in_one_group_of_the_table() -> None:
    assert {find_group(name) for name in FAULTS} == set(FAULT_GROUPS)


def test_every_setting_is_in_one_group_of_its_page() -> None:
    listed = [name for names in SETTING_GROUPS.values() for name in names]
    assert sorted(listed) == sorted(Settings.model_fields)
