"""Ray's part of the tests that need no cluster."""

from pathlib import Path

import pytest

from tests.cluster.local_cluster import ENVIRONMENT
from tests.cluster.ray_here import Actor, RayHere


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kernel_cache: Path) -> RayHere:
    """Ray without a cluster, and the engine of a node without a GPU."""
    variables = {
        "WAVETRIM_DEVICES": "none", "WAVETRIM_CPU_THREADS": "1",
        "WAVETRIM_KERNEL_CACHE_DIR": str(kernel_cache), "WAVETRIM_PROFILE_DIR": str(tmp_path),
    }  # fmt: skip
    for name, value in {**ENVIRONMENT, **variables}.items():
        monkeypatch.setenv(name, value)
    from wavetrim.scheduler.cluster.node import NodeEngine  # it imports Ray, which reads these

    here = RayHere(Actor(NodeEngine()))
    here.install(monkeypatch)
    return here
