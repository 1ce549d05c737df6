"""docs/v2.md has the limits of the code; its blocks run in test_code_blocks.py."""

from tests.environment import ROOT
from wavetrim.service.api.v2.datatypes import MOST_JSON_ELEMENTS
from wavetrim.service.api.v2.stack import MOST_PRODUCTS
from wavetrim.service.grpc.conversion import MOST_TYPED_ELEMENTS

PAGE = (ROOT / "docs/v2.md").read_text(encoding="utf-8")


def test_the_page_has_the_limits_of_the_code() -> None:
    for limit in (MOST_PRODUCTS, MOST_JSON_ELEMENTS, MOST_TYPED_ELEMENTS):
        assert f"{limit:,}" in PAGE
