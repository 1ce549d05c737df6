"""Which version of wavetrim this is."""

import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def find_version() -> str:
    """The installed distribution's version, or that of the clone that this file lies in."""
    try:
        return version("wavetrim")
    except PackageNotFoundError:
        # The import name leads here through a link of the clone.
        project = Path(__file__).resolve().parents[1] / "pyproject.toml"
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
