"""Byte ranges, as RFC 9110 gives them. `tests/fuzz/targets.py` reads any text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavetrim.service.api.matrices.conditions import parse_range
from wavetrim.service.errors import RangeNotSatisfiable


@pytest.mark.parametrize(
    "text",
    ["", "bytes", "bytes=", "bytes=-", "bytes=5-2", "rows=1-2", "bytes=0-1,3-4", "bytes=a-b"],
)
def test_other_units_several_ranges_and_nonsense_mean_the_whole_file(text: str) -> None:
    assert parse_range(text, 10) is None


@pytest.mark.parametrize("text", ["bytes=10-", "bytes=10-12", "bytes=-0"])
def test_ranges_after_the_end_are_not_satisfiable(text: str) -> None:
    with pytest.raises(RangeNotSatisfiable) as refusal:
        parse_range(text, 10)
    assert refusal.value.size_bytes == 10


@given(st.integers(1, 50), st.data())
def test_a_range_is_the_slice_that_it_names(size: int, data: st.DataObject) -> None:
    content = bytes(range(size))
    first = data.draw(st.integers(0, size - 1))
    last = data.draw(st.integers(first, 2 * size))
    part = parse_range(f"bytes={first}-{last}", size)
    assert part is not None
    assert content[slice(*part)] == content[first : last + 1]
