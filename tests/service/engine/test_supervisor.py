"""The supervisor over a process that ends in an awkward way, at an awkward moment."""

import asyncio
import os
import signal
import time
from functools import partial

import pytest

import wavetrim
from tests.limit import allow
from tests.service.engine.test_engine import run_with_engine
from wavetrim.service.engine.process import EngineProcess
from wavetrim.service.engine.supervisor import Supervisor

_BEGIN = """
import json, os, socket, subprocess, sys
work = socket.socket(fileno=int(sys.argv[sys.argv.index("--fds") + 1]))
"""

GREETS = "work.send(json.dumps({'type': 'ready', 'name': 'awkward'}).encode())\n"
WAITS = "work.recv(2**17)\n"
LEAVES_A_CHILD = """
child = subprocess.Popen(['sleep', '600'], start_new_session=True)  # with our standard output
print(child.pid, file=open('PIDS', 'a'))
"""


class Awkward(Supervisor):
    """Supervises a process that is a short program."""

    def __init__(self):
        super().__init__("awkward", name="the process")

    def list_arguments(self, _failed_starts, /):
        return []

    def learn(self, hello, /):
        assert hello["name"]

    def forget(self):
        pass

    def take_other(self, message, /):
        raise AssertionError(message)


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Makes a program the one that the processes run; ends the children that it leaves."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    pids = tmp_path / "pids"
    pids.touch()

    def write(program):
        (tmp_path / "awkward.py").write_text(_BEGIN + program.replace("PIDS", str(pids)))

    yield write
    for pid in map(int, pids.read_text().split()):
        os.kill(pid, signal.SIGKILL)


def run(scenario):
    supervisor = Awkward()
    run_with_engine(supervisor, partial(scenario, supervisor))


def test_a_child_that_keeps_the_output_open_does_not_delay_the_next_start(write):
    write(LEAVES_A_CHILD + GREETS + WAITS)

    async def scenario(supervisor):
        await supervisor.wait_ready()
        began = time.monotonic()
        await supervisor.restart("the test says so")
        await supervisor.wait_ready()
        assert supervisor.restarts == 1
        assert time.monotonic() - began < allow(10)

    run(scenario)


def test_a_stop_while_a_process_is_ending_ends_its_runs(write):
    write(LEAVES_A_CHILD + GREETS + WAITS)  # its end takes a while, as its output stays open
    told = []
    gone = []

    async def scenario(supervisor):
        supervisor.on_gone = lambda: gone.append(True)
        await supervisor.wait_ready()
        supervisor.start_run({"type": "run", "job": "j"}, told.append)
        restarting = asyncio.create_task(supervisor.restart("the test says so"))
        await asyncio.sleep(0.3)
        assert not told
        await supervisor.stop()
        await restarting

    run(scenario)
    assert [(one["type"], one["kind"]) for one in told] == [("failed", "engine")]
    assert gone == [True]


def test_a_greeting_of_another_version_is_a_failed_start(write, caplog):
    write(GREETS.replace("'name'", "'title'") + WAITS)

    async def scenario(supervisor):
        while supervisor.restarts < 2:  # noqa: ASYNC110 # nothing tells of it
            await asyncio.sleep(0.01)
        assert not supervisor.ready

    run(scenario)
    assert "cannot be read" in caplog.text


def test_a_process_finds_the_same_wavetrim_and_no_folder_of_it_by_its_bare_name(write, caplog):
    write(
        "import wavetrim; print(wavetrim.__file__, os.path.dirname(wavetrim.__file__) in sys.path)"
    )

    async def scenario():
        process = await EngineProcess.launch("awkward", [], lambda _message: None, {})
        await process.end(20)

    with caplog.at_level("INFO", logger="wavetrim.service.engine.output"):
        asyncio.run(scenario())
    assert f"{wavetrim.__file__} False" in caplog.text
