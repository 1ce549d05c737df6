"""With jobs in flight, no fault loses, doubles or damages anything.

Each is tried once here, and often by `python -m benchmarks.faults`.

WAVETRIM_FAULTS_SEED repeats a run, as far as processes can be repeated.
"""

import os
import random
import secrets
from contextlib import ExitStack

import pytest

from tests.faults.catalog import MAPPED, OWN, PLAIN, SIGNALS
from tests.faults.fault import Stage

pytestmark = pytest.mark.slow

SEED = int(os.environ.get("WAVETRIM_FAULTS_SEED", secrets.randbelow(2**32)))

LEFT_OUT = (
    *("kill-both", "stop-both", "stop-kill-engine"),
    *("file-cut-short", "file-replaced-by-a-link", "file-replaced-by-another-file"),
)
"""Others of their kind show the same."""

PICKED = {name: make for name, make in (SIGNALS | PLAIN).items() if name not in LEFT_OUT}


OWN_BY_NEED = [
    pytest.param(name, marks=[pytest.mark.needs(fault.needs)] if fault.needs else [])
    for name, fault in OWN.items()
]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A service as most are."""
    with ExitStack() as stack:
        yield Stage(PLAIN["bad-callers"](), tmp_path_factory.mktemp("plain"), stack)


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    """A service whose engine reads files itself."""
    with ExitStack() as stack:
        make = next(iter(MAPPED.values()))
        yield Stage(make(), tmp_path_factory.mktemp("mapped"), stack)


def expect_nothing_lost(stage, fault):
    """Each accepted job has succeeded once or failed with its reason; all files are right."""
    outcome = stage.put_through(fault, random.Random(SEED))
    wrong = outcome.lost, outcome.doubled, outcome.damaged, outcome.unexplained
    assert wrong == (0, 0, 0, 0), (f"WAVETRIM_FAULTS_SEED={SEED}", outcome.notes)
    assert outcome.accepted > 0


@pytest.mark.parametrize("name", PICKED)
def test_nothing_is_lost(plain, name):
    expect_nothing_lost(plain, PICKED[name]())


@pytest.mark.parametrize("name", MAPPED)
def test_nothing_is_lost_where_the_engine_reads_files(mapped, name):
    expect_nothing_lost(mapped, MAPPED[name]())


@pytest.mark.parametrize("name", OWN_BY_NEED)
def test_nothing_is_lost_where_something_is_short(tmp_path, name):
    with ExitStack() as stack:
        fault = OWN[name]()
        expect_nothing_lost(Stage(fault, tmp_path, stack), fault)
