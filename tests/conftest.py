"""What all tests share: which of them run, and where kernels are cached."""

import gc
import os
import signal
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

from tests.environment import ROOT, SHARED_SETTINGS
from wavetrim.kernels.device import list_devices

pytest_plugins = (
    *("tests.server", "tests.clients", "tests.pools", "tests.postgres", "tests.browsers"),
)

settings.register_profile("wavetrim", deadline=None)
settings.load_profile("wavetrim")

# A shell starts its background commands deaf to Ctrl-C, and so would be the processes that tests
# start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


LONG_FILES: Final = (
    "kernels/test_compile",
    "faults/test_faults",
    "service/api/admission/test_limits",
    "cluster/test_nodes",
    "service/api/wire/test_protocol",
    "service/storage/database/test_away",
    "service/api/wire/test_limits",
    "service/storage/arena/test_arena_rules",
    "service/api/products/test_leases",
    "benchmarks/test_http",
    "service/storage/database/test_many_jobs",
    "service/api/products/test_matmul",
    "client/test_jobs",
    "service/jobs/test_dispatch",
    "service/jobs/test_restart",
    "service/storage/folder/test_identity",
    "page/test_explorer",
    "page/test_jobs",
    "service/cli/commands/test_backup",
    "deploy/test_monitoring",
    "service/storage/database/test_schema",
)
"""Files that take long: they begin, so that no process is busy alone at the end."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with long files; leave GPU tests out, unless the marker expression speaks of them."""
    first = {ROOT / "tests" / f"{name}.py" for name in LONG_FILES}
    items.sort(key=lambda item: item.path not in first)
    if "gpu" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("gpu")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("gpu")]


def pytest_collection_finish() -> None:
    """Have the garbage collector look at what tests make only, not at all that was imported."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a GPU test where there is no GPU: it was asked for, so skipping would hide it."""
    if item.get_closest_marker("gpu") and not list_devices():
        pytest.fail("this test needs a CUDA GPU, and CuPy sees none", pytrace=False)


@pytest.fixture(scope="session", autouse=True)
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder of compiled code for the whole run: for services, and all processes of xdist."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder = folder / "kernels"
    folder.mkdir(exist_ok=True)
    SHARED_SETTINGS["kernel_cache_dir"] = folder
    return folder
