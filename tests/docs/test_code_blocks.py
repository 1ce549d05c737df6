"""Every fenced block of the README and of docs/ runs, in order, with a service for each page.

A word after the language marks a block that needs more: `sh gpu`, `sh cluster` (Ray or Kubernetes)
and `sh install` (it fetches packages). Such a block does not run: its shell syntax is checked, and
the options of its `wavetrim` commands. Blocks of pages in ELSEWHERE are checked likewise.
"""

import contextlib
import json
import re
from dataclasses import dataclass

import pytest

from docs.session import find_exchanges
from tests.environment import ROOT, SHARED_SETTINGS
from tests.stage import check_shell
from wavetrim.service.api.products.leased_matmul import LeasedProduct

MARKS = ("gpu", "cluster", "install")
ELSEWHERE = ("docs/operations.md",)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its mark and its text."""

    language: str
    mark: str
    text: str


def find_blocks(page):
    pattern = r"^( *)```(\w*) ?([\w ]*)\n(.*?)^\1```$"
    found = re.findall(pattern, page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [Block(language, mark, text) for _, language, mark, text in found]


BLOCKS = {
    str(page.relative_to(ROOT)): blocks
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if (blocks := find_blocks(page))
}


def list_pages():
    """Pages whose blocks run, those with a mark that call curl."""
    for page, blocks in BLOCKS.items():
        calls = any(re.search(r"\bcurl\b", one.text) and not one.mark for one in blocks)
        if page not in ELSEWHERE:
            yield pytest.param(page, marks=[pytest.mark.needs("curl")] if calls else [])


@pytest.mark.parametrize("page", [*list_pages()])
def test_the_blocks_of_a_page_run(page, stage, monkeypatch):
    names = {}
    monkeypatch.setenv("WAVETRIM_DEVICES", "none")
    monkeypatch.setenv("WAVETRIM_KERNEL_CACHE_DIR", str(SHARED_SETTINGS["kernel_cache_dir"]))
    with contextlib.chdir(stage.folder):
        for block in BLOCKS[page]:
            match block.language, block.mark:
                case "python", "":
                    exec(compile(stage.adapt(block.text), page, "exec"), names)
                case "sh", "":
                    stage.run_shell(block.text)
                case "json", "":
                    LeasedProduct.model_validate(json.loads(block.text))
                case "console", "":
                    session = find_exchanges(f"```console\n{block.text}```")
                    stage.run_shell("\n".join(one.command for one in session))
                case "text", "":
                    pass  # a formula
                case "sh", mark if mark in MARKS:
                    check_shell(block.text)
                case other:
                    pytest.fail(f"nothing runs blocks of {other}")


@pytest.mark.parametrize("page", ELSEWHERE)
def test_blocks_that_run_elsewhere_are_valid_commands(page):
    assert BLOCKS[page]
    for block in BLOCKS[page]:
        assert block.language == "sh"
        check_shell(block.text)
