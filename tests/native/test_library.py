"""Compiled C is kept under a name that changes with its sources, flags and tuned numbers.

That of both libraries compiles without warnings, and passes the sanitizers.
"""

import ast
import platform
import re
import subprocess
from pathlib import Path

import pytest

from tests.environment import ROOT
from tests.native.sanitizers import SANITIZERS, list_flags, run_program
from tests.processes import compile_c
from wavetrim.cpu.library import CPU_LIBRARY
from wavetrim.kernels.transfer.host_library import HOST_LIBRARY
from wavetrim.native import library, tuned
from wavetrim.native.errors import CompilationFailed
from wavetrim.native.library import (
    FLAGS,
    SHARED_HEADERS,
    SHARED_SOURCES,
    compile_library,
    load_library,
    name_library,
)

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


with_libraries = pytest.mark.parametrize(
    "library", [CPU_LIBRARY, HOST_LIBRARY], ids=lambda library: library.name
)


@with_libraries
def test_a_library_names_every_source_in_its_folder(library):
    named = {*library.sources, *library.headers} - {*SHARED_SOURCES}
    assert named == {*library.folder.glob("*.[ch]")}


@pytest.mark.needs("cc")
@with_libraries
def test_a_library_compiles_without_warnings(tmp_path, library):
    flags = (*FLAGS, "-Werror", "-shared", "-fPIC")
    compile_c(tmp_path / "library.so", *flags, *library.sources, *library.links)


@pytest.mark.timeout(900)  # the thread sanitizer takes ten times as long
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_products_of_callers_that_share_a_pool_pass_the_sanitizer(tmp_path, sanitizer):
    """Copies do so in kernels/transfer."""
    how = ("-p", "no:cacheprovider", "--capture=no", f"--basetemp={tmp_path / 'tests'}")
    tests = ("-k", "not Python", "tests/cpu/test_reports.py")
    run_program(sanitizer, tmp_path, "-m", "pytest", *how, *tests)


@pytest.mark.needs("cc")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has tiles")
def test_emulated_tiles_multiply_parts_of_any_size_and_layout(tmp_path):
    flags = (*FLAGS, *list_flags("address,undefined"))
    compile_c(tmp_path / "program", *flags, ROOT / "tests" / "cpu" / "tiles_check.c", "-lm")
    subprocess.run([tmp_path / "program"], check=True)
