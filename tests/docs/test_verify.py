"""docs/verify.md explains the check."""

from benchmarks.verify.tables import PAGE
from wavetrim.scheduler.check.verify import Verification


def test_the_page_explains_every_field_of_a_verification() -> None:
    page = PAGE.read_text(encoding="utf-8")
    names = set(Verification.__slots__) - {"passed", "tolerance"}
    assert {name for name in names if f"`{name}`" not in page} == set()
