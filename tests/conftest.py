"""What all tests share: which tests run, in which order, and where kernels are cached."""

import gc
import os
import signal

import pytest
from hypothesis import settings

from tests.environment import ROOT, SHARED_SETTINGS
from wavetrim.cpu.gemm import CpuPool
from wavetrim.kernels.device import list_devices

pytest_plugins = (
    *("tests.server", "tests.clients", "tests.postgres", "tests.browsers"),
    "tests.left_out",
    "tests.stage",
)

settings.register_profile("wavetrim", deadline=None, max_examples=50)
settings.load_profile("wavetrim")

# A shell lets its background commands ignore SIGINT, and nohup lets them ignore SIGHUP. The
# processes that tests start would inherit that, and tests end them by these signals.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


LONG_FILES = (
    "cluster/test_nodes",
    "faults/test_faults",
    "kernels/test_compile",
    "page/test_explorer",
    "page/test_jobs",
    "docs/test_code_blocks",
    "service/api/jobs/test_events",
    "service/cli/test_examples",
    "service/test_clock",
    "service/cli/commands/test_demo",
    "house/test_house",
    "scheduler/local/test_process",
    "service/storage/folder/test_identity",
    "service/api/jobs/test_chains",
    "service/api/admission/test_limits",
    "lab/test_experiments",
    "kernels/transfer/test_stages",
    "cluster/test_services",
    "service/storage/database/test_claim",
    "service/jobs/test_restart",
)
"""Files that take long, the longest first, so that all processes end at about the same time."""


def pytest_collection_modifyitems(config, items):
    """Begin with long files; leave GPU tests out, unless the marker expression has "gpu"."""
    places = {ROOT / "tests" / f"{name}.py": place for place, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
    if "gpu" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("gpu")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("gpu")]


def pytest_collection_finish():
    """Let the garbage collector skip all that was imported before the tests."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item):
    """Fail a GPU test where there is no GPU: to skip it would hide that it did not run."""
    if item.get_closest_marker("gpu") and not list_devices():
        pytest.fail("this test needs a CUDA GPU, and CuPy sees none", pytrace=False)


@pytest.fixture(scope="session", autouse=True)
def kernel_cache(tmp_path_factory):
    """One folder of compiled code for the whole run, shared by services and xdist's processes."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder = folder / "kernels"
    folder.mkdir(exist_ok=True)
    SHARED_SETTINGS["kernel_cache_dir"] = folder
    return folder


@pytest.fixture(scope="session", params=["C", "Python"])
def open_pool(request, kernel_cache):
    """Opens a pool with a number of threads; skips where the library is compiled already.

    A pool without a folder to compile into has threads in Python, unless the library is compiled
    next to its source.
    """
    in_c = request.param == "C"

    def open_pool(threads):
        pool = CpuPool(threads, cache_dir=kernel_cache if in_c else None)
        if pool.prepare() != in_c:
            pool.close()
            assert not in_c, "there is no C compiler, or NumPy has no OpenBLAS"
            pytest.skip("the library is compiled next to its source")
        return pool

    return open_pool
