"""The engine under its supervisor: real processes that crash, hang, and are started again."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kernels.cupy_without_gpu import UUIDS, write_cupy
from tests.limit import allow
from tests.processes import is_gone
from tests.service.parts import Parts, make_parts
from wavetrim.scheduler.engine.messages import FINAL_TYPES, Operand, RunRequest
from wavetrim.service.engine.engine import Engine, list_arguments
from wavetrim.service.engine.supervisor import Watch
from wavetrim.service.settings import Settings


def run_with_engine(
    parts: Parts, scenario: Callable[[Engine], Awaitable[None]], seconds: float = 60
) -> None:
    async def start_and_stop() -> None:
        async with asyncio.timeout(seconds):
            await parts.engine.start()
            try:
                await scenario(parts.engine)
            finally:
                await parts.engine.stop()

    try:
        asyncio.run(start_and_stop())
    finally:
        parts.database.dispose()


def make_run(parts: Parts, size: int = 1000) -> dict[str, Any]:
    a = parts.matrices.get(parts.store_slow_operand(size))
    out = parts.matrices.allocate(size, size, "int64")
    a_operand, out_operand = Operand(**a.operand()), Operand(**out.operand())
    return RunRequest("j", a_operand, a_operand, None, out_operand).as_message()


async def start_run(
    engine: Engine, message: dict[str, Any], note: Callable[[Any], None] = lambda _event: None
) -> "asyncio.Future[Any]":
    """Starts a run when the engine is ready; the future becomes its final message."""
    final = asyncio.get_running_loop().create_future()

    def take(event: Any) -> None:
        if event["type"] in FINAL_TYPES:
            final.set_result(event)
        else:
            note(event)

    await engine.wait_ready()
    engine.start_run(message, take)
    return final


async def compute(engine: Engine, message: dict[str, Any]) -> Any:
    """The final message of a run."""
    return await (await start_run(engine, message))


async def wait_for_plan(engine: Engine, message: dict[str, Any]) -> "asyncio.Future[Any]":
    """Starts a run; returns when the engine has planned it."""
    planned = asyncio.Event()
    run = await start_run(engine, message, lambda _event: planned.set())
    await planned.wait()
    return run


def test_the_engine_tells_what_it_computes_with(tmp_path: Path) -> None:
    parts = make_parts(tmp_path, cpu_threads=1)
    pids = []

    async def scenario(engine: Engine) -> None:
        assert (engine.cpu_threads, engine.state) == (None, "starting")
        await engine.wait_ready()
        assert engine.state == "ready"
        assert (engine.devices, engine.cpu_threads, engine.degraded) == ((), 1, None)
        assert engine.profiles.find().device == "cpu"
        assert engine.pid is not None
        pids.append(engine.pid)

    run_with_engine(parts, scenario)
    assert parts.engine.state == "stopped"
    assert is_gone(pids[0])


def test_a_run_reports_plan_and_progress_before_its_end(tmp_path: Path) -> None:
    parts = make_parts(tmp_path)
    seen = []

    def note(event: Any) -> None:
        seen.append(event["type"])

    async def scenario(engine: Engine) -> None:
        final = await (await start_run(engine, make_run(parts, 500), note))
        assert final["type"] == "succeeded"

    run_with_engine(parts, scenario)
    assert seen[0] == "planned"
    assert set(seen[1:]) == {"progress"}


def test_an_engine_that_is_killed_fails_its_run_and_starts_again(tmp_path: Path) -> None:
    parts = make_parts(tmp_path)

    async def scenario(engine: Engine) -> None:
        message = make_run(parts)
        run = await wait_for_plan(engine, message)
        first = engine.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        failed = await run
        assert (failed["type"], failed["kind"]) == ("failed", "engine")
        assert failed["retryable"]
        assert "killed by signal 9" in failed["message"]
        assert not engine.ready
        await engine.wait_ready()
        assert engine.pid != first
        assert engine.restarts == 1
        again = await compute(engine, message)
        assert again["type"] == "succeeded"

    run_with_engine(parts, scenario)
    assert parts.metrics.engine_restarts._value.get() == 1


def test_a_run_that_is_cancelled_stops_early(tmp_path: Path) -> None:
    parts = make_parts(tmp_path)

    async def scenario(engine: Engine) -> None:
        run = await wait_for_plan(engine, make_run(parts, 2400))
        began = time.monotonic()
        engine.cancel("j")
        assert (await run)["type"] == "cancelled"
        assert time.monotonic() - began < allow(3)

    run_with_engine(parts, scenario)


def test_a_cancel_after_the_end_of_a_run_does_not_stop_the_next_one_of_its_id(
    tmp_path: Path,
) -> None:
    parts = make_parts(tmp_path)

    async def scenario(engine: Engine) -> None:
        message = make_run(parts, 600)
        assert (await compute(engine, message))["type"] == "succeeded"
        engine.cancel("j")
        assert (await compute(engine, message))["type"] == "succeeded"

    run_with_engine(parts, scenario)


@pytest.mark.serial
def test_a_hanging_engine_is_noticed_and_replaced(tmp_path: Path) -> None:
    watch = Watch(ping_seconds=0.1, silence_seconds=1.0)
    parts = make_parts(tmp_path, watch=watch)

    async def scenario(engine: Engine) -> None:
        message = make_run(parts)
        run = await wait_for_plan(engine, message)
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGSTOP)
        failed = await run
        assert "silent for 1 s" in failed["message"]
        assert failed["retryable"]
        await engine.wait_ready()

    run_with_engine(parts, scenario)


@pytest.mark.serial
def test_a_long_product_is_not_taken_for_a_hang(tmp_path: Path) -> None:
    watch = Watch(ping_seconds=0.1, silence_seconds=0.5)
    parts = make_parts(tmp_path, watch=watch)

    async def scenario(engine: Engine) -> None:
        began = time.monotonic()
        final = await compute(engine, make_run(parts, 1300))
        assert final["type"] == "succeeded"
        assert time.monotonic() - began > watch.silence_seconds

    run_with_engine(parts, scenario)
    assert parts.engine.restarts == 0


def test_an_engine_that_never_gets_ready_is_given_up_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts = make_parts(tmp_path)
    restarted: asyncio.Queue[None] = asyncio.Queue()

    async def scenario() -> None:
        engine = Engine(
            parts.settings,
            watch=Watch(start_seconds=0.01),
            on_restart=lambda: restarted.put_nowait(None),
        )
        await engine.start()
        try:
            for _ in range(2):
                await restarted.get()
            assert engine.restarts == 2
            assert not engine.ready
        finally:
            await engine.stop()

    asyncio.run(scenario())
    parts.database.dispose()
    assert "not ready within 0.01 s" in caplog.text


def test_the_engine_starts_without_gpus_that_keep_it_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CuPy lists a GPU, and has nothing to open it with."""
    monkeypatch.setenv("PYTHONPATH", write_cupy(tmp_path, uuids=UUIDS))
    parts = make_parts(tmp_path)
    settings = parts.settings.model_copy(update={"devices": "0"})

    async def scenario() -> None:
        engine = Engine(settings)
        await engine.start()
        try:
            async with asyncio.timeout(60):
                await engine.wait_ready()
            assert engine.devices == ()
            assert engine.restarts == 3
            assert engine.degraded is not None
            assert "3 starts with them have failed" in engine.degraded
        finally:
            await engine.stop()

    asyncio.run(scenario())
    parts.database.dispose()
    assert "started without them" in caplog.text


def test_crashes_in_a_row_make_the_restarts_slower(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts = make_parts(tmp_path)

    async def scenario(engine: Engine) -> None:
        for _ in range(3):
            await engine.wait_ready()
            await engine.restart("the test says so")
            assert engine.pid is None
        await engine.wait_ready()

    run_with_engine(parts, scenario)
    delays = [record.args[-1] for record in caplog.records if "starts again" in record.msg]
    assert delays == [0.1, 0.2, 0.4]


def test_stopping_in_the_middle_of_a_run_leaves_no_process(tmp_path: Path) -> None:
    parts = make_parts(tmp_path)
    pids = []

    async def scenario(engine: Engine) -> None:
        run = await wait_for_plan(engine, make_run(parts))
        pids.append(engine.pid)
        await engine.stop()
        assert (await run)["kind"] == "engine"

    run_with_engine(parts, scenario)
    assert is_gone(pids[0])


def test_what_the_engine_prints_goes_into_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts = make_parts(tmp_path)

    async def scenario(engine: Engine) -> None:
        await engine.wait_ready()
        message = make_run(parts, 8)
        message["a"][0] = str(tmp_path / "gone")
        failed = await compute(engine, message)
        assert failed["kind"] == "internal"

    with caplog.at_level("INFO", logger="wavetrim.service.engine.output"):
        run_with_engine(parts, scenario)
    assert "FileNotFoundError" in caplog.text


def test_settings_become_the_command_line(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, devices="0,1", gpu_memory_bytes="1GiB", cpu_threads=3)
    arguments = list_arguments(settings)
    pairs = dict(zip(arguments[::2], arguments[1::2], strict=True))
    assert pairs == {
        "--cache-dir": str(tmp_path / "kernels"),
        "--profile-dir": str(tmp_path / "profiles"),
        "--gpu-memory-bytes": str(2**30),
        "--cpu-threads": "3",
        "--device": "0,1",
        "--stall-seconds": "60.0",
    }
    assert "--device" not in list_arguments(Settings(data_dir=tmp_path))
    assert list_arguments(settings, use_devices=False)[-2:] == ["--device", "none"]


def test_an_engine_with_gpus_is_told_of_each_matrix_that_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, told = make_parts(tmp_path), []
    parts.matrices.on_removed.append(parts.engine.forget_matrix)
    first, second = (parts.store(np.ones((2, 3), np.float32)) for _ in range(2))

    async def scenario(engine: Engine) -> None:
        await engine.wait_ready()
        monkeypatch.setattr(engine, "send", told.append)
        await asyncio.to_thread(parts.matrices.delete, first)  # the CPU keeps none
        monkeypatch.setattr(Engine, "devices", property(lambda _engine: ("a GPU",)))
        await asyncio.to_thread(parts.matrices.delete, second)
        await asyncio.sleep(0)
        monkeypatch.undo()

    run_with_engine(parts, scenario)
    assert told == [{"type": "forget", "matrix": second}]
