"""What processes that tests start find in their environment."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]


def clear_environment(*folders: Path) -> dict[str, str]:
    """This process's environment without wavetrim's settings.

    A child finds modules in these folders, in the clone, and where this process finds its own.
    """
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("WAVETRIM_")}
    path = [*map(str, folders), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**inherited, "PYTHONPATH": os.pathsep.join(filter(None, path))}
