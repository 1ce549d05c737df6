"""The command line as its users run it: `wavetrim`, in a process of its own or in this one."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner, Result

from tests.environment import clear_environment
from wavetrim.service.cli.main import app


def make_environment(**variables: str) -> dict[str, str]:
    """This process's environment without wavetrim's settings and GPUs, and with some more."""
    return {**clear_environment(), "WAVETRIM_DEVICES": "none", **variables}


def invoke_command(*arguments: object, folder: Path, **variables: str) -> Result:
    """Run a command in this process, which is quicker; for those that end at once."""
    settings = {name: None for name in os.environ if name.startswith("WAVETRIM_")}
    with contextlib.chdir(folder):
        return CliRunner().invoke(
            app, [*map(str, arguments)], env={**settings, "WAVETRIM_DEVICES": "none", **variables}
        )


def run_command(
    *arguments: object, folder: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder until it ends."""
    return subprocess.run(
        [sys.executable, "-m", "wavetrim", *map(str, arguments)],
        cwd=folder,
        env=make_environment(**variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def start_command(*arguments: object, folder: Path, **variables: str) -> subprocess.Popen[str]:
    """Start a command in a folder, its output in pipes."""
    return subprocess.Popen(
        [sys.executable, "-m", "wavetrim", *map(str, arguments)],
        cwd=folder,
        env=make_environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
