"""The documents are right: sessions print what is shown, commands and paths exist."""

import itertools
import os
import re
import sys

import pytest

from docs.session import find_exchanges, run_commands
from tests.environment import ROOT
from tests.processes import execute
from wavetrim.scheduler import planning
from wavetrim.scheduler.planning.choice import SPLIT_GAIN

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
FOLDERS = "service|scheduler|kernels|cpu|native|lab|tests|benchmarks|deploy|docs|requirements"


def normalise(output):
    """Output without fractions, which may differ in their last digits."""
    return re.sub(r"\d+\.\d+([eE]-?\d+)?", "FRACTION", output)


def test_readme_is_short():
    assert len([line for line in README.splitlines() if not line.startswith("|")]) <= 80
    assert len(re.findall(r"(?<!!)\[[^]]*\]\(", README)) <= 10


@pytest.mark.needs("curl")
def test_sessions_print_what_the_readme_shows():
    shown = find_exchanges(README)
    printed = run_commands([exchange.command for exchange in shown])
    assert len(shown) >= 4
    for expected, actual in zip(shown, printed, strict=True):
        assert normalise(actual.output) == normalise(expected.output), actual.command


QUESTIONS = {
    "How do I run it on my GPU box?": ("README.md#run-it", r"--profile gpu up"),
    "How do I multiply?": ("README.md#a-product", r"/v1/matmul"),
    "How do I queue a hundred products?": ("README.md#a-job", r"client\.submit\("),
    "How do I know when they end?": ("docs/jobs.md#know-when-it-ends", r"wait_seconds=\d"),
    "Why was the CPU not used?": ("docs/concepts.md#why-the-cpu-was-not-used", r"F = 0"),
    "How do I give a colleague a key?": (
        "docs/operations.md#keys-for-colleagues",
        r"wavetrim keys add",
    ),
    "How do I back it up?": ("docs/operations.md#to-back-up", r"wavetrim backup"),
    "How do I see that the result is right?": ("docs/api.md#the-check", r"`verify=true`"),
    "How do I add a kernel?": ("CONTRIBUTING.md#a-new-kernel", r"kernels/catalog\.py"),
    "What is a wave?": ("docs/concepts.md#waves", r"a \*wave\*"),
}
"""What a stranger asks, the section that answers, and what must stand there."""


def read_links(page):
    """Where a page's links lead: "docs/api.md#leases" or "docs/api.md", from the root."""
    found = re.findall(r"\]\((?!http)([^)]+)\)", page.read_text(encoding="utf-8"))
    links = (link.partition("#") for link in found)
    return {
        f"{(page.parent / path if path else page).resolve().relative_to(ROOT)}{mark}{anchor}"
        for path, mark, anchor in links
    }


def list_sections(page):
    """The text below each heading, down to the next one as high, by the heading's anchor."""
    text = re.sub(r"```.*?```", lambda block: re.sub("^#", " #", block[0], flags=re.M),
                  page.read_text(encoding="utf-8"), flags=re.DOTALL)  # fmt: skip
    pieces = re.split(r"^(#+) (.+)$", text, flags=re.MULTILINE)[1:]
    heads = list(zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True))
    found = {}
    for position, (depth, title, _) in enumerate(heads):
        rest = heads[position + 1 :]
        below = itertools.takewhile(lambda one, depth=depth: len(one[0]) > len(depth), rest)
        anchor = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
        found[anchor] = "".join(body for *_, body in [heads[position], *below])
    return found


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_within_two_clicks(question):
    place, words = QUESTIONS[question]
    file, _, anchor = place.partition("#")
    assert re.search(words, list_sections(ROOT / file)[anchor])
    reached = {"README.md"}
    for _ in range(2):
        pages = {link.partition("#")[0] for link in reached}
        reached |= {
            link for page in pages if page.endswith(".md") for link in read_links(ROOT / page)
        }
    assert file in {link.partition("#")[0] for link in reached}


@pytest.mark.parametrize("document", ["README.md", "docs/concepts.md"])
def test_the_formula_comes_with_what_a_split_must_promise(document):
    text = " ".join((ROOT / document).read_text(encoding="utf-8").split())
    gains = [f"{SPLIT_GAIN[memory]:.0%}" for memory in ("pinned", "pageable")]
    formula = re.findall(r"^    (\w.* = .*)$", planning.__doc__ or "", re.MULTILINE)
    assert len(formula) == 6
    assert all(" ".join(line.split()) in text for line in formula)
    assert f"save {gains[0]} of the time of the better single device" in text
    assert re.search(rf"\b{gains[1]} from pageable memory", text)


def test_every_make_command_named_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in DOCUMENTS:
        text = (ROOT / document).read_text(encoding="utf-8")
        named = re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE)
        assert set(named) <= targets, document


@pytest.mark.slow
def test_make_demo_checks_its_product():
    assert "`make demo`" in README
    command = ["make", "demo", f"PYTHON={sys.executable}", "ARGS=--size 200 --runs 1"]
    variables = {k: v for k, v in os.environ.items() if k not in {"MAKEFLAGS", "MFLAGS", "ARGS"}}
    demo = execute(command, cwd=ROOT, env=variables, timeout=120)
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert re.search(r"\bF\b", demo.stdout)


PAGES = sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("document", [*DOCUMENTS, *PAGES])
def test_links_and_paths_lead_somewhere(document):
    text = (ROOT / document).read_text(encoding="utf-8")
    paths = re.findall(rf"`((?:{FOLDERS})/(?!.*NAME)[\w./]*)`", text)
    assert not [path for path in paths if not (ROOT / path).exists()]
    for link in read_links(ROOT / document):
        file, _, anchor = link.partition("#")
        assert (ROOT / file).exists(), link
        assert not anchor or anchor in list_sections(ROOT / file), link


def test_the_architecture_is_short():
    assert len((ROOT / "ARCHITECTURE.md").read_bytes()) <= 6000
