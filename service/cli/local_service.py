"""A service for one command: started on a free port, stopped with all its processes."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from wavetrim.client import Client, ServiceUnreachable
from wavetrim.service.cli.exits import CommandFailed
from wavetrim.service.machine_settings import MachineSettings

START_SECONDS: Final = 90.0
"""How long a service may take until it is ready, with loading CUDA; chosen."""

_ANNOUNCEMENT: Final = re.compile(r"^wavetrim is serving on (http://\S+)$", re.MULTILINE)
_STOP_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.05
_KEPT: Final = ("WAVETRIM_DEVICES", "WAVETRIM_CPU_THREADS", "WAVETRIM_GPU_MEMORY_BYTES")


@contextlib.contextmanager
def run_service(
    folder: Path, settings: MachineSettings, *, ray_address: str | None = None
) -> Iterator[Client]:
    """Run a service over an empty folder, and stop it whatever happens.

    Of the environment's settings only those of the machine count: its devices, threads,
    calibrations and compiled kernels.

    Args:
        folder: For data and log.
        settings: The environment's settings.
        ray_address: Address of a cluster whose nodes compute, too.

    Yields:
        A client of the service, once that is ready.

    Raises:
        CommandFailed: The service does not become ready; the message ends with its log.
    """
    log = folder / "service.log"
    with log.open("wb") as output, _run_process(folder, settings, ray_address, output) as process:
        deadline = time.monotonic() + START_SECONDS
        client: Client | None = None
        try:
            while client is None or not _is_ready(client):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise CommandFailed(f"the service did not start:\n{_read_end(log)}")
                if client is None and (found := _ANNOUNCEMENT.search(log.read_text())):
                    client = Client(found[1])
                time.sleep(_PAUSE_SECONDS)
            yield client
        finally:
            if client is not None:
                client.close()


@contextlib.contextmanager
def _run_process(
    folder: Path, settings: MachineSettings, ray_address: str | None, output: IO[bytes]
) -> Iterator[subprocess.Popen[bytes]]:
    """The service's process, in a process group of its own that ends with the block."""
    command = [sys.executable, "-m", "wavetrim", "serve", "--port", "0", "--host", "127.0.0.1"]
    process = subprocess.Popen(  # noqa: S603
        [*command, "--data-dir", str(folder / "data")],
        env=_make_environment(settings, ray_address),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,  # Ctrl-C in the terminal reaches the command, which stops it
    )
    try:
        yield process
    finally:
        _stop_process(process)


def _is_ready(client: Client) -> bool:
    try:
        return client.health().ready
    except ServiceUnreachable:
        return False


def _stop_process(process: subprocess.Popen[bytes]) -> None:
    """Ask the service to end, and then kill what is left of its group."""
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _make_environment(settings: MachineSettings, ray_address: str | None) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT or not name.startswith("WAVETRIM_")
    }
    if ray_address is not None:
        kept["WAVETRIM_RAY_ADDRESS"] = ray_address
    kept["WAVETRIM_PROFILE_DIR"] = str(settings.profile_dir)
    if settings.kernel_cache_dir.is_dir():
        kept["WAVETRIM_KERNEL_CACHE_DIR"] = str(settings.kernel_cache_dir)
    return kept


def _read_end(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:])
