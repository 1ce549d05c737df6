"""Compiled C is kept under a name that changes with its sources, flags and tuned numbers."""

import ast
import re
from pathlib import Path

import pytest

from wavetrim.kernels.transfer.host_library import HOST_LIBRARY
from wavetrim.native import library, tuned
from wavetrim.native.errors import CompilationFailed
from wavetrim.native.library import SHARED_HEADERS, compile_library, load_library, name_library

TUNED = Path(tuned.__file__).read_text(encoding="utf-8")
ORIGIN = re.compile(r"(?P<unit>[^;]+); (chosen|(?P<machine>[^;]+); (?P<commit>[0-9a-f]{7}))")


def test_the_library_is_compiled_once_and_loaded_again(tmp_path):
    file = compile_library(HOST_LIBRARY, tmp_path)
    assert file.name == name_library(HOST_LIBRARY)
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    written = file.stat().st_mtime_ns
    assert load_library(HOST_LIBRARY, tmp_path) is not None
    assert file.stat().st_mtime_ns == written


@pytest.mark.parametrize(
    ("named", "told"), [(" ", "no C compiler"), ("gcc '", r"\$CC is .*: No closing quotation")]
)
def test_an_odd_name_of_the_compiler_is_refused(tmp_path, monkeypatch, named, told):
    monkeypatch.setenv("CC", named)
    with pytest.raises(CompilationFailed, match=told):
        compile_library(HOST_LIBRARY, tmp_path)


def test_a_changed_shared_header_or_tuned_number_changes_the_librarys_name(tmp_path, monkeypatch):
    assert {*SHARED_HEADERS} == {*Path(library.__file__).parent.glob("*.h")}
    find_name = name_library.__wrapped__  # its result is cached
    before, changed = find_name(HOST_LIBRARY), tmp_path / "waiting.h"
    changed.write_text("// another\n")
    with monkeypatch.context() as patch:
        patch.setattr(library, "SHARED_HEADERS", (changed,))
        assert find_name(HOST_LIBRARY) != before
    pauses = f"-DPAUSES={tuned.PAUSES}"
    assert pauses in library.FLAGS
    others = (flag.replace(pauses, pauses + "1") for flag in library.FLAGS)
    monkeypatch.setattr(library, "FLAGS", tuple(others))
    assert find_name(HOST_LIBRARY) != before


def list_numbers():
    """Each number with the comment on its line."""
    lines = TUNED.splitlines()
    assigned = [node for node in ast.parse(TUNED).body if isinstance(node, ast.AnnAssign)]
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
