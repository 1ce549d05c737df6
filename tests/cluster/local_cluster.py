"""A cluster here, as `wavetrim demo` starts one: a head, and nodes of one thread each."""

import os
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.environment import SHARED_SETTINGS
from tests.processes import list_family
from wavetrim.service.cli.local import run_cluster

HEALTH_CHECK_MILLISECONDS = 500
"""A node whose process is gone has left after five of these; a slow one has longer to answer."""


@contextmanager
def start_cluster(nodes, *, prepare=lambda _profiles: None):
    """A cluster that is closed at the end; until then its token is in the environment.

    `prepare` is called with the folder of its calibrations.
    """
    with TemporaryDirectory(prefix="wavetrim-") as name, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_TOKEN", "")  # the cluster makes its own
        patch.setenv("RAY_health_check_period_ms", str(HEALTH_CHECK_MILLISECONDS))
        for setting, value in SHARED_SETTINGS.items():
            patch.setenv(f"WAVETRIM_{setting.upper()}", str(value))
        prepare(Path(name) / "profiles")
        with run_cluster(Path(name), nodes) as cluster:
            yield cluster


def list_engines():
    """Process ids of the nodes' engines."""
    return [pid for pid in list_family(os.getpid()) if _read_title(pid).startswith("ray::NodeE")]


def _read_title(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""
