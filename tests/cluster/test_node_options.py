"""What a node's engine may use: the variables mean what they mean to a service."""

import pytest

from tests.cluster.local_cluster import ENVIRONMENT
from tests.command import run_command
from wavetrim.scheduler.engine.process import EngineOptions


def test_every_option_is_read(tmp_path, monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    from wavetrim.scheduler.cluster.node import read_options  # Ray reads these

    options = read_options(
        {
            "WAVETRIM_KERNEL_CACHE_DIR": str(tmp_path / "kernels"),
            "WAVETRIM_PROFILE_DIR": str(tmp_path / "profiles"),
            "WAVETRIM_DEVICES": "0,2",
            "WAVETRIM_CPU_THREADS": "3",
            "WAVETRIM_GPU_MEMORY_BYTES": "2048",
            "WAVETRIM_STALL_SECONDS": "9",
        }
    )
    assert options == EngineOptions(
        tmp_path / "kernels", tmp_path / "profiles", "0,2", 3, 2048, 9.0
    )


@pytest.mark.parametrize(
    ("name", "text", "limit"),
    [
        ("GPU_MEMORY_BYTES", "4 apples", "it must be a size in bytes, such as 4GiB"),
        ("CPU_THREADS", "two", "it must be a valid integer"),
        ("STALL_SECONDS", "-1", "it must be a number of seconds greater than 0"),
        ("STALL_SECONDS", "soon", "it must be a number of seconds greater than 0"),
        ("DEVICES", "first", "pattern"),
    ],
)
def test_a_bad_option_is_refused_before_ray_is_started(tmp_path, name, text, limit):
    variables = {f"WAVETRIM_{name}": text, "RAY_AUTH_TOKEN": "x" * 32}
    done = run_command("node", "--head", folder=tmp_path, **variables)
    assert done.returncode == 2
    assert f"WAVETRIM_{name}" in done.stderr
    assert limit in done.stderr
