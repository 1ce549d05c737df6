"""The tuned numbers are few, in one file, and each names its origin."""

import ast
import re
from pathlib import Path

import pytest

from wavetrim.native import tuned

SOURCE = Path(tuned.__file__).read_text(encoding="utf-8")
ORIGIN = re.compile(r"(?P<unit>[^;]+); (chosen|(?P<machine>[^;]+); (?P<commit>[0-9a-f]{7}))")


def list_numbers():
    """Each number with the comment on its line."""
    lines = SOURCE.splitlines()
    assigned = [node for node in ast.parse(SOURCE).body if isinstance(node, ast.AnnAssign)]
    return {
        node.target.id: lines[node.lineno - 1].partition("  # ")[2]
        for node in assigned
        if isinstance(node.target, ast.Name) and node.target.id != "MACROS"
    }


def test_at_most_ten_numbers_depend_on_the_machine():
    """The last four are chosen, for C."""
    assert 0 < len(list_numbers()) - 4 <= 10


@pytest.mark.parametrize(("name", "origin"), list_numbers().items())
def test_a_tuned_number_has_unit_machine_and_commit_or_was_chosen(name, origin):
    assert isinstance(getattr(tuned, name), int | float)
    assert ORIGIN.fullmatch(origin), f"{name}: {origin!r}"
