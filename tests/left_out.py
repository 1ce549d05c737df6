"""What `make test` leaves out: tests that need a program or a right, and those that take long."""

import pytest

from tests.needs import NEEDS, list_packages

_PLAIN = "not serial and not needs and not slow"
"""The marker expression of the last run of `make test`, and of no other."""


def pytest_itemcollected(item):
    """Mark a test with what its fixtures need."""
    fixtures = set(getattr(item, "fixturenames", ()))
    for name, need in NEEDS.items():
        if not fixtures.isdisjoint(need.fixtures):
            item.add_marker(pytest.mark.needs(name))
    for mark in item.iter_markers("needs"):
        if unknown := set(mark.args) - NEEDS.keys():
            raise pytest.UsageError(f"{item.nodeid} needs {unknown}, which tests/needs.py lacks")


def pytest_runtest_setup(item):
    """Fail a test whose program is missing: to skip it would hide that it did not run."""
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            if NEEDS[name].is_missing:
                packages = " ".join(NEEDS[name].packages)
                words = f"this test needs {name}: apt-get install {packages}"
                pytest.fail(words, pytrace=False)


def pytest_terminal_summary(terminalreporter, config):
    """Say at the end of `make test` what it has left out, and how that is run."""
    if _PLAIN not in config.option.markexpr:
        return
    write = terminalreporter.write_line
    terminalreporter.section("left out")
    write("`make test-rest` runs the tests that are left out, and `make test-all` all of them:")
    write("  slow: they take long")
    for name, need in NEEDS.items():
        write(f"  {name}: {need.purpose}")
    if packages := list_packages(NEEDS):
        write("Their programs are not all here. On Debian, one command installs them:")
        write(f"  sudo apt-get install --no-install-recommends {' '.join(packages)}")
