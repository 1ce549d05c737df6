"""The parsers on all inputs that their fuzzer has kept, and those that once broke them."""

import importlib
from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).with_name("corpus")


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_of_the_corpus_breaks_its_parser(name):
    inputs = sorted((CORPUS / name).iterdir())
    assert inputs
    for file in inputs:
        TARGETS[name](file.read_bytes())


@pytest.mark.parametrize("name", ["document", "parsers", "wire"])
def test_the_fuzzers_find_what_they_are_made_of(name):
    """They run for a minute in CI, at its end."""
    assert importlib.import_module(f"tests.fuzz.{name}").main
