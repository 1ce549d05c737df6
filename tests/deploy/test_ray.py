"""The commands of docs/deploy.md start a head and a node of Ray, on this machine."""

import contextlib
import os
import re
import secrets
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.command import make_environment
from tests.deploy.page import list_blocks
from tests.limit import allow
from tests.processes import list_children, wait_until
from tests.server import find_free_port

pytestmark = pytest.mark.needs("curl")

STORE = "--store-bytes 192MiB"


class Machines:
    """The machines of the page, which are one: its commands with addresses of this one."""

    def __init__(self, folder):
        self._folder = folder
        self._ports = {"6379": find_free_port(), "8000": find_free_port()}
        (folder / "bin").mkdir()
        for name, words in (("python3", ""), ("wavetrim", "-m wavetrim ")):
            file = folder / "bin" / name
            file.write_text(f'#!/bin/sh\nexec {sys.executable} {words}"$@"\n')
            file.chmod(0o755)
        self._environment = make_environment(
            PATH=f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            RAY_AUTH_TOKEN=secrets.token_hex(32), RAY_USAGE_STATS_ENABLED="0",
            WAVETRIM_CPU_THREADS="1", WAVETRIM_PORT=str(self._ports["8000"]),
        )  # fmt: skip
        self.started = []

    def adapt(self, block):
        """A block without what installs, and with free ports of this machine."""
        lines = [line for line in block.splitlines() if not line.startswith(("pip ", "ray "))]
        text = "\n".join(lines)
        text = text.replace("--head ", f"--head --port {self._ports['6379']} --temp-dir ray ")
        text = re.sub(r"\b(wavetrim node)\b", rf"\1 {STORE}", text)
        text = re.sub(r"\b10\.0\.0\.\d\b", "127.0.0.1", text)
        for usual, found in self._ports.items():
            text = text.replace(f":{usual}", f":{found}")
        return text.replace("--temp-dir ray", f"--temp-dir {self._folder / 'ray'}")

    def start(self, block):
        """Run a block and keep its shell; returns the file of all that it prints."""
        log = self._folder / f"{len(self.started)}.log"
        words = ["bash", "-euc", f"{self.adapt(block)}\necho 'the block has ended'\nwait"]
        with log.open("wb") as output:
            shell = subprocess.Popen(
                words, cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output,
            )  # fmt: skip
        self.started.append(shell)
        return log

    def ask(self, block):
        """What a block prints; nothing if it fails."""
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", self.adapt(block)],
            env=self._environment, capture_output=True, text=True, timeout=allow(60), check=False,
        )  # fmt: skip
        return done.stdout

    def close(self):
        tree = [shell.pid for shell in self.started]
        for pid in tree:
            tree += list_children(pid)
        for pid in tree:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for shell in self.started:
            shell.wait()


@pytest.fixture
def machines():
    with TemporaryDirectory(prefix="wt-") as folder:  # its path is short: Ray's sockets lie in it
        found = Machines(Path(folder))
        try:
            yield found
        finally:
            found.close()


@pytest.mark.slow
def test_the_pages_commands_start_a_head_a_service_and_a_node(machines):
    head, node, listing = list_blocks("Ray", "cluster")
    log = machines.start(head)
    wait_until(lambda: "the block has ended" in log.read_text(), 90)
    assert '{"status":"ready"}' in log.read_text()
    (product,) = list_blocks("Deploy")
    assert '"data":[11.0]' in machines.ask(product)
    (own,) = list_engines(machines.ask(listing))
    joined = machines.start(node)
    wait_until(lambda: len(list_engines(machines.ask(listing))) == 2, 120)
    assert list_engines(machines.ask(listing))[0] == own == "here"
    assert "stored in" in joined.read_text()  # it was measured before it joined


def list_engines(table):
    """The first column of what `wavetrim devices --url` prints."""
    return re.findall(r"^(here|[0-9a-f]{12}) ", table, re.MULTILINE)
