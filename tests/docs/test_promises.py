"""docs/promises.md: each promise names tests that exist, and each section of the pages has one."""

import ast
import re

import pytest

from tests.docs.test_readme import list_sections
from tests.environment import ROOT

PAGE = (ROOT / "docs/promises.md").read_text(encoding="utf-8")
PAGES = {"operations.md": set(), "jobs.md": set(), "api.md": {"The calls"}}
"""Pages whose sections promise something, each with the sections that promise nothing."""


def test_every_promise_names_tests_that_exist():
    rows = re.findall(r"^\| (?!Promise|---)(.+) \| (.+) \|$", PAGE, re.MULTILINE)
    assert len(rows) > 80
    for promise, shown in rows:
        named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", shown)
        assert named, promise
        for file, name in named:
            assert name in list_tests(file), f"{promise}: {file} has no {name}"


@pytest.mark.parametrize("page", PAGES)
def test_every_section_of_a_page_has_a_promise(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    code_left_out = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    sections = set(re.findall(r"^##+ (.+)$", code_left_out, re.MULTILINE)) - PAGES[page]
    assert set(re.findall(rf"^## {page}: (.+)$", PAGE, re.MULTILINE)) == sections


def test_every_fault_of_the_operations_page_names_a_test():
    section = list_sections(ROOT / "docs/operations.md")["what-is-promised"]
    table = section.partition("| Fault |")[2].partition("\n\n")[0]
    shown = [line.rsplit("|", 2)[1] for line in table.splitlines()[2:]]
    assert len(shown) > 10
    for cell in shown:
        assert re.search(r"`(test_\w+|tests/[\w/]+\.py)`", cell), cell


def list_tests(file):
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    return {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
