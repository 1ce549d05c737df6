"""What `make test` leaves out: tests that need a program or a right, and those that take long."""

from collections import Counter

import pytest

from tests.needs import NEEDS, list_packages

_PLAIN = "not needs and not slow"
"""What the marker expression of `make test` has, and no other."""

_counted = {}
"""Tests that are left out, by reason, and of all; of this process or of one of xdist's."""


def pytest_itemcollected(item):
    """Mark a test with what its fixtures need."""
    fixtures = set(getattr(item, "fixturenames", ()))
    for name, need in NEEDS.items():
        if not fixtures.isdisjoint(need.fixtures):
            item.add_marker(pytest.mark.needs(name))


@pytest.hookimpl(tryfirst=True)  # before any is left out
def pytest_collection_modifyitems(items):
    """Count what `make test` leaves out of the tests that need no GPU."""
    found = [_find_reasons(item) for item in items if not item.get_closest_marker("gpu")]
    _counted.clear()
    _counted.update(Counter(reason for reasons in found for reason in reasons))
    _counted.update(all=len(found), left_out=sum(map(bool, found)))


def _find_reasons(item):
    slow = {"slow"} if item.get_closest_marker("slow") else set()
    return slow | set(_list_needs(item))


def _list_needs(item):
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            if name not in NEEDS:
                raise pytest.UsageError(f"{item.nodeid} needs {name!r}, which tests/needs.py lacks")
            yield name


def pytest_runtest_setup(item):
    """Fail a test whose program is missing: to skip it would hide that it did not run."""
    for name in _list_needs(item):
        if NEEDS[name].is_missing:
            words = f"this test needs {name}: apt-get install {' '.join(NEEDS[name].packages)}"
            pytest.fail(words, pytrace=False)


def pytest_sessionfinish(session):
    """Send the counts from a process of xdist's."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = _counted


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Receive them; each process has the same."""
    _counted.update(getattr(node, "workeroutput", {}).get("left_out", {}))


def pytest_terminal_summary(terminalreporter, config):
    """Say at the end of `make test` what it has left out, and how that is run."""
    expression = config.option.markexpr
    # Of its two runs, the one of the many tests is the last.
    if _PLAIN not in expression or "not serial" not in expression or not _counted.get("left_out"):
        return
    left_out, of_all = _counted["left_out"], _counted["all"]
    share = 100 * (of_all - left_out) // of_all
    write = terminalreporter.write_line
    terminalreporter.section("left out")
    write(f"{of_all - left_out} of {of_all} tests that need no GPU are in `make test`: {share}%.")
    write("`make test-rest` runs the others, and `make test-all` all of them:")
    for name in ("slow", *NEEDS):
        if count := _counted.get(name):
            purpose = NEEDS[name].purpose if name in NEEDS else "they take long"
            write(f"  {name}: {count} test{'s' if count > 1 else ''} ({purpose})")
    packages = list_packages(name for name in NEEDS if name in _counted)
    if packages:
        write("Their programs are not all here. On Debian, one command installs them:")
        write(f"  sudo apt-get install --no-install-recommends {' '.join(packages)}")
