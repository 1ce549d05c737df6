"""The engine under its supervisor: real processes that crash, hang, and are started again.

Then a process that ends in an awkward way, at an awkward moment.
"""

import asyncio
import os
import signal
import time
from functools import partial

import pytest

import wavetrim
from tests.environment import SHARED_SETTINGS
from tests.kernels.cupy_without_gpu import UUIDS, write_cupy
from tests.limit import allow
from tests.matrices import make_matrix
from tests.scheduler.engine.worker_process import make_request
from wavetrim.scheduler.engine.messages import FINAL_TYPES
from wavetrim.service.engine import supervisor
from wavetrim.service.engine.engine import Engine
from wavetrim.service.engine.process import EngineProcess
from wavetrim.service.engine.supervisor import Supervisor
from wavetrim.service.settings import Settings


def make_engine(folder, **settings):
    return Engine(Settings(**{"data_dir": folder} | SHARED_SETTINGS | settings))


def run_with_engine(engine, scenario):
    async def start_and_stop():
        async with asyncio.timeout(60):
            await engine.start()
            try:
                await scenario()
            finally:
                await engine.stop()

    asyncio.run(start_and_stop())


def make_run(folder, size=1000):
    """A product that takes a second or so: 64-bit integers have no fast one."""
    a = make_matrix(size, size, "int64", seed=1)
    return make_request(folder, a, a).as_message()


async def start_run(engine, message, note=lambda _event: None):
    """Starts a run when the engine is ready; the future becomes its final message."""
    final = asyncio.get_running_loop().create_future()

    def take(event):
        if event["type"] in FINAL_TYPES:
            final.set_result(event)
        else:
            note(event)

    await engine.wait_ready()
    engine.start_run(message, take)
    return final


async def compute(engine, message):
    return await (await start_run(engine, message))


async def wait_for_plan(engine, message):
    """Starts a run; returns when the engine has planned it."""
    planned = asyncio.Event()
    run = await start_run(engine, message, lambda _event: planned.set())
    await planned.wait()
    return run


@pytest.mark.serial
def test_a_hanging_engine_is_noticed_and_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "PING_SECONDS", 0.1)
    monkeypatch.setattr(supervisor, "SILENCE_SECONDS", 1.0)
    engine = make_engine(tmp_path)

    async def scenario():
        message = make_run(tmp_path)
        run = await wait_for_plan(engine, message)
        os.kill(engine.pid, signal.SIGSTOP)
        failed = await run
        assert "silent for 1 s" in failed["message"]
        assert failed["retryable"]
        await engine.wait_ready()

    run_with_engine(engine, scenario)


@pytest.mark.serial
def test_a_long_product_is_not_taken_for_a_hang(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "PING_SECONDS", 0.1)
    monkeypatch.setattr(supervisor, "SILENCE_SECONDS", 0.5)
    engine = make_engine(tmp_path)

    async def scenario():
        began = time.monotonic()
        final = await compute(engine, make_run(tmp_path, 1300))
        assert final["type"] == "succeeded"
        assert time.monotonic() - began > 0.5

    run_with_engine(engine, scenario)
    assert engine.restarts == 0


def test_an_engine_that_never_gets_ready_is_given_up_and_tried_again(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(supervisor, "START_SECONDS", 0.01)
    engine = make_engine(tmp_path)

    async def scenario():
        while engine.restarts < 2:  # noqa: ASYNC110 # nothing tells of it
            await asyncio.sleep(0.01)
        assert not engine.ready

    run_with_engine(engine, scenario)
    assert "not ready within 0.01 s" in caplog.text


def test_the_engine_starts_without_gpus_that_keep_it_from_starting(tmp_path, caplog, monkeypatch):
    """CuPy lists a GPU, and has nothing to open it with."""
    monkeypatch.setenv("PYTHONPATH", write_cupy(tmp_path, uuids=UUIDS))
    engine = make_engine(tmp_path, devices="0")

    async def scenario():
        await engine.wait_ready()
        assert engine.devices == ()
        assert engine.restarts == 3
        assert "3 starts with them have failed" in engine.degraded

    run_with_engine(engine, scenario)
    assert "started without them" in caplog.text


def test_what_the_engine_prints_goes_into_the_log(tmp_path, caplog):
    engine = make_engine(tmp_path)

    async def scenario():
        await engine.wait_ready()
        message = make_run(tmp_path, 8)
        message["a"][0] = str(tmp_path / "gone")
        failed = await compute(engine, message)
        assert failed["kind"] == "internal"

    with caplog.at_level("INFO", logger="wavetrim.service.engine.output"):
        run_with_engine(engine, scenario)
    assert "FileNotFoundError" in caplog.text


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
