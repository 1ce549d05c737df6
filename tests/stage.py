"""Where shell commands of documents and of help run: a folder, the programs, and a service."""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.environment import ROOT, SHARED_SETTINGS, clear_environment
from tests.preloaded import SHARED_VARIABLE, share_preloaded
from tests.processes import execute
from tests.server import RunningServer
from wavetrim.service.cli.main import app


@dataclass(frozen=True)
class Stage:
    """The surroundings of blocks: a folder with `wavetrim` and `python`, and a service."""

    folder: Path
    server: RunningServer

    def adapt(self, text):
        """A block with the address of this service in place of the usual one."""
        address = self.server.url.removeprefix("http://")
        return text.replace("localhost:8000", address).replace("127.0.0.1:8000", address)

    def run_shell(self, text):
        command, environment = ["bash", "-euc", self.adapt(text)], self.make_environment()
        ended = execute(command, cwd=self.folder, env=environment, pass_fds=[share_preloaded()])
        assert ended.returncode == 0, f"{text}\n{ended.stdout}{ended.stderr}"

    def make_environment(self):
        settings = {
            "kernel_cache_dir": SHARED_SETTINGS["kernel_cache_dir"],
            "data_dir": self.server.data_dir,
            "devices": "none",
            "url": self.server.url,
        }
        return {
            **clear_environment(),
            **{f"WAVETRIM_{name.upper()}": str(value) for name, value in settings.items()},
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            SHARED_VARIABLE: str(share_preloaded()),
        }


def make_programs(folder):
    """Give a folder `bin` with `wavetrim` and `python`, and what a clone has beside them."""
    (folder / "bin").mkdir()
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "lab").symlink_to(ROOT / "lab")
    for name, words in (("python", ""), ("wavetrim", "-S -m tests.preloaded wavetrim ")):
        file = folder / "bin" / name
        file.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words}"$@"\n')
        file.chmod(0o755)


@pytest.fixture
def stage(tmp_path):
    make_programs(tmp_path)
    with RunningServer(tmp_path / "data") as server:
        yield Stage(tmp_path, server)


def check_shell(text):
    """Assert that its shell syntax is right, and `wavetrim` has its commands and options."""
    subprocess.run(["bash", "-nc", text], check=True)
    for line in re.findall(
        r"\bwavetrim (?!wavetrim)([a-z].*)$", text.replace("\\\n", " "), re.MULTILINE
    ):
        check_wavetrim(shlex.split(line, comments=True))


def check_wavetrim(words):
    """Assert that a command exists and has these options, without running it."""
    ended = CliRunner().invoke(app, [*words, "--help"])
    assert ended.exit_code == 0, f"wavetrim {shlex.join(words)}: {ended.stderr}"
