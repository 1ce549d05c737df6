"""docs/api.md has the limits, fields and statuses of the code; other tests run its blocks."""

import re

from benchmarks.common.plots import DOCS
from wavetrim.scheduler.check.verify import Verification
from wavetrim.service.api.problem_kinds import NOT_READY, PROBLEMS
from wavetrim.service.api.v2.datatypes import MOST_JSON_ELEMENTS

TEXT = (DOCS / "api.md").read_text(encoding="utf-8")


def test_the_page_has_the_limit_of_the_protocol() -> None:
    assert f"{MOST_JSON_ELEMENTS:,}" in TEXT


def test_the_page_explains_every_field_of_a_verification() -> None:
    names = set(Verification.__slots__) - {"passed", "tolerance"}
    assert {name for name in names if f"`{name}`" not in TEXT} == set()


def test_the_table_has_every_status_of_a_refusal() -> None:
    cells = re.findall(r"^\| (\d{3}(?:, \d{3})*) \|", TEXT, re.MULTILINE)
    named = {int(status) for cell in cells for status in cell.split(", ")}
    refused = {kind.status for kind in (NOT_READY, *PROBLEMS.values())}
    assert named == refused | {405, 504}, "405 comes from the router, 504 from a failed product"
