"""The environment of processes that tests start."""

import os
from pathlib import Path

# Threads of NumPy's BLAS spin for tens of milliseconds after each product, while other tests wait
# for a core. They read this when NumPy is imported, here and in the processes that tests start.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

ROOT = Path(__file__).parents[1]

# matplotlib looks through all fonts once a folder, and without a home folder once a process.
os.environ.setdefault("MPLCONFIGDIR", str(ROOT / ".pytest_cache" / "matplotlib"))

ALL_ARCHITECTURES = os.environ.get("WAVETRIM_TEST_ARCHITECTURES") == "all"
"""Whether kernels are compiled for all architectures, as in `.ci/run`; it takes longer."""

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120")
"""All that kernels are compiled for, Turing to Blackwell."""

MEASURED_ARCHITECTURE = "sm_90a"
"""The architecture that kernels are tuned on; every kernel runs on it."""

SHARED_SETTINGS = {"devices": "none", "cpu_threads": 1}
"""Settings of services that tests start, unless a test chooses others.

They make a start fast: C is compiled before, into a folder that conftest.py adds.
"""

SHARED_CONSTANTS = {"arena_slab_bytes": 16 * 2**20}
"""Constants of services that tests start: little memory makes a start fast."""


def clear_environment(*folders):
    """This process's environment without wavetrim's settings.

    A child imports from these folders, from the clone and from this process's PYTHONPATH.
    """
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("WAVETRIM_")}
    path = [*map(str, folders), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**inherited, "PYTHONPATH": os.pathsep.join(filter(None, path))}
