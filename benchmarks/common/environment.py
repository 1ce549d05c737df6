"""The environment of a measurement: hardware, versions, commit, time. Part of every result."""

import contextlib
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from benchmarks.common.tables import ROOT
from wavetrim.cpu.model import find_cpu_name
from wavetrim.cpu.threads import usable_cores
from wavetrim.kernels.device import list_devices

_PACKAGES = (
    "numpy", "cupy-cuda13x", "cuda-core", "nvidia-cublas", "nvidia-cuda-nvrtc", "torch"
)  # fmt: skip


def describe_environment() -> dict[str, Any]:
    """JSON-ready: hardware, versions, commit (with "+changes" for an unclean tree) and time."""
    devices = list_devices()
    return {
        "hardware": {
            "gpu": devices[0].name if devices else None,
            "gpus": len(devices),
            "sm_count": devices[0].sm_count if devices else None,
            "driver": str(devices[0].driver_version) if devices else None,
            "cpu": find_cpu_name(),
            "cores": usable_cores(),
        },
        "versions": {"python": platform.python_version(), **_list_versions()},
        "commit": _find_commit(),
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def name_host(environment: dict[str, Any]) -> str:
    """A short name for a results file: the GPU's, or "cpu" with the core count."""
    hardware = environment["hardware"]
    if hardware["gpu"]:
        return name_gpu(hardware["gpu"])
    return f"cpu{hardware['cores']}"


def name_gpu(gpu: str) -> str:
    """A GPU's model, "h100" of "NVIDIA H100 80GB HBM3"; the last word if none looks like one."""
    models = re.findall(r"\b[A-Z]{1,2}\d+\b", gpu)
    return (models[0] if models else gpu.rsplit(maxsplit=1)[-1]).casefold()


def _list_versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _find_commit() -> str:
    """The measured commit; WAVETRIM_COMMIT names it if the tree has no history."""
    if told := os.environ.get("WAVETRIM_COMMIT"):
        return told

    def ask(*words: str) -> str:
        command = ("git", "-C", str(ROOT), *words)
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changes = ask("status", "--porcelain", "--untracked-files=no")
        return ask("rev-parse", "--short=12", "HEAD") + ("+changes" if changes else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
