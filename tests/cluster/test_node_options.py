"""What a node's engine may use: the variables mean what they mean to a service."""

import pytest

from wavetrim.scheduler.cluster.node_options import read_options
from wavetrim.scheduler.cluster.start import NodeRefused
from wavetrim.scheduler.engine.process import EngineOptions
from wavetrim.service.settings import Settings


def test_every_option_is_read(tmp_path):
    options = read_options(
        {
            "WAVETRIM_KERNEL_CACHE_DIR": str(tmp_path / "kernels"),
            "WAVETRIM_PROFILE_DIR": str(tmp_path / "profiles"),
            "WAVETRIM_DEVICES": "0,2",
            "WAVETRIM_CPU_THREADS": "3",
            "WAVETRIM_GPU_MEMORY_BYTES": "2KiB",
            "WAVETRIM_STALL_SECONDS": "9",
        }
    )
    assert options == EngineOptions(
        tmp_path / "kernels", tmp_path / "profiles", "0,2", 3, 2048, 9.0
    )


@pytest.mark.parametrize(
    ("name", "text", "limit"),
    [
        ("GPU_MEMORY_BYTES", "4 apples", "more than 0 bytes"),
        ("GPU_MEMORY_BYTES", "0", "more than 0 bytes"),
        ("CPU_THREADS", "two", "a whole number of at least 1"),
        ("CPU_THREADS", "0", "a whole number of at least 1"),
        ("STALL_SECONDS", "-1", "a number of seconds greater than 0"),
        ("DEVICES", "first", "`none`, or indices such as `0,1`, or UUIDs"),
    ],
)
def test_a_bad_option_is_refused_with_variable_value_and_limit(name, text, limit, monkeypatch):
    with pytest.raises(NodeRefused) as caught:
        read_options({f"WAVETRIM_{name}": text})
    assert str(caught.value).startswith(f"WAVETRIM_{name} is {text!r}; it must be {limit}")
    monkeypatch.setenv(f"WAVETRIM_{name}", text)
    with pytest.raises(ValueError, match=name.lower()):
        Settings()
