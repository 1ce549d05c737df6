"""The documents are right: sessions print what is shown, commands and paths exist."""

import os
import re
import subprocess
import sys

import pytest

from docs.session import find_exchanges, run_commands
from tests.environment import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
FOLDERS = "service|scheduler|kernels|cpu|native|lab|tests|benchmarks|deploy|docs|requirements"


def normalise(output: str) -> str:
    """Output without ids, times and measured figures, which differ between runs."""
    output = re.sub(r"\b[0-9a-f]{30,}\b", "ID", output)
    output = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)", "TIME", output)
    output = re.sub(r'("(?:f|waves|waves_gpu_only)":|wavetrim-f: )\d+', r"\1ROWS", output)
    return re.sub(r"\d+\.\d+([eE]-?\d+)?", "SECONDS", output)


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 115


@pytest.mark.needs("curl")
def test_sessions_print_what_the_readme_shows() -> None:
    shown = find_exchanges(README)
    printed = run_commands([exchange.command for exchange in shown])
    assert len(shown) >= 5
    for expected, actual in zip(shown, printed, strict=True):
        assert normalise(actual.output) == normalise(expected.output), actual.command


def test_every_make_command_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in DOCUMENTS:
        text = (ROOT / document).read_text(encoding="utf-8")
        named = re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE)
        assert set(named) <= targets, document


def test_make_demo_checks_its_product() -> None:
    assert "\nmake demo " in README
    demo = subprocess.run(
        ["make", "demo", f"PYTHON={sys.executable}", "ARGS=--size 200 --runs 1"],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k not in {"MAKEFLAGS", "MFLAGS", "ARGS"}},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert re.search(r"\bF\b", demo.stdout)


PAGES = sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("document", [*DOCUMENTS, *PAGES])
def test_links_and_paths_lead_somewhere(document: str) -> None:
    page = ROOT / document
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!http)([^)#]+)", text)
    paths = re.findall(rf"`((?:{FOLDERS})/(?!.*NAME)[\w./]*)`", text)
    assert not [link for link in links if not (page.parent / link).exists()]
    assert not [path for path in paths if not (ROOT / path).exists()]


def test_the_architecture_is_short() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_bytes()) <= 6000
