"""Every fenced block of the README and of docs/ runs, in order, with a service for each page.

A word after the language marks a block that needs more: `sh gpu`, `sh cluster` (Ray or Kubernetes)
and `sh install` (it fetches packages). Such a block does not run: its shell syntax is checked, and
the options of its `wavetrim` commands. Blocks of pages in ELSEWHERE are checked likewise.
"""

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from docs.session import find_exchanges
from tests.environment import ROOT, SHARED_SETTINGS, clear_environment
from tests.server import RunningServer
from wavetrim.service.api.products.leased_schemas import LeasedProduct
from wavetrim.service.cli.main import app

MARKS = ("gpu", "cluster", "install")
ELSEWHERE = ("docs/operations.md",)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its mark and its text."""

    language: str
    mark: str
    text: str


def find_blocks(page: Path) -> list[Block]:
    pattern = r"^( *)```(\w*) ?([\w ]*)\n(.*?)^\1```$"
    found = re.findall(pattern, page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [Block(language, mark, text) for _, language, mark, text in found]


BLOCKS = {
    str(page.relative_to(ROOT)): blocks
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if (blocks := find_blocks(page))
}


@dataclass(frozen=True)
class Stage:
    """The surroundings of blocks: a folder with `wavetrim` and `python`, and a service."""

    folder: Path
    server: RunningServer

    def adapt(self, text: str) -> str:
        """A block with the address of this service in place of the usual one."""
        address = self.server.url.removeprefix("http://")
        return text.replace("localhost:8000", address).replace("127.0.0.1:8000", address)

    def run_shell(self, text: str) -> None:
        ended = subprocess.run(
            ["bash", "-euc", self.adapt(text)], cwd=self.folder, env=self.make_environment(),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, f"{text}\n{ended.stdout}{ended.stderr}"

    def make_environment(self) -> dict[str, str]:
        settings = {
            "kernel_cache_dir": SHARED_SETTINGS["kernel_cache_dir"],
            "data_dir": self.server.data_dir,
            "devices": "none",
            "url": self.server.url,
        }
        return {
            **clear_environment(),
            **{f"WAVETRIM_{name.upper()}": str(value) for name, value in settings.items()},
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        }


def list_pages() -> Iterator[Any]:
    """Pages whose blocks run, those with a mark that call curl."""
    for page, blocks in BLOCKS.items():
        calls = any(re.search(r"\bcurl\b", one.text) and not one.mark for one in blocks)
        if page not in ELSEWHERE:
            yield pytest.param(page, marks=[pytest.mark.needs("curl")] if calls else [])


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    (tmp_path / "bin").mkdir()
    (tmp_path / ".venv").symlink_to(sys.prefix)
    for name, words in (("python", ""), ("wavetrim", "-m wavetrim ")):
        file = tmp_path / "bin" / name
        file.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words}"$@"\n')
        file.chmod(0o755)
    with RunningServer(tmp_path / "data") as server:
        yield Stage(tmp_path, server)


@pytest.mark.parametrize("page", [*list_pages()])
def test_the_blocks_of_a_page_run(page: str, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {}
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
def test_blocks_that_run_elsewhere_are_valid_commands(page: str) -> None:
    assert BLOCKS[page]
    for block in BLOCKS[page]:
        assert block.language == "sh"
        check_shell(block.text)


def test_a_block_that_fails_is_found(stage: Stage) -> None:
    with pytest.raises(AssertionError, match="No such matrix"):
        stage.run_shell("wavetrim download none\n")
    with pytest.raises(AssertionError, match="No such option"):
        check_wavetrim(["plan", "--nothing"])
    with pytest.raises(AssertionError, match="No such command"):
        check_wavetrim(["plot"])


def check_shell(text: str) -> None:
    """Assert that its shell syntax is right, and `wavetrim` has its commands and options."""
    subprocess.run(["bash", "-nc", text], check=True)
    for line in re.findall(
        r"\bwavetrim (?!wavetrim)([a-z].*)$", text.replace("\\\n", " "), re.MULTILINE
    ):
        check_wavetrim(shlex.split(line, comments=True))


def check_wavetrim(words: list[str]) -> None:
    """Assert that a command exists and has these options, without running it."""
    ended = CliRunner().invoke(app, [*words, "--help"])
    assert ended.exit_code == 0, f"wavetrim {shlex.join(words)}: {ended.stderr}"
