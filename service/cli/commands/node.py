"""`wavetrim node`: join this machine to a Ray cluster, to compute for a service elsewhere."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

import wavetrim
from wavetrim.scheduler.cluster.start import (
    check_token,
    make_command,
    make_environment,
)
from wavetrim.scheduler.errors import FieldError
from wavetrim.service.cli.exits import CommandFailed, CommandRefused
from wavetrim.service.cli.machine import find_machine, load_settings
from wavetrim.service.cli.options import read_size
from wavetrim.service.machine_settings import MachineSettings
from wavetrim.service.settings import check_ray_address

_RAYS_PORTS: Final = (8265, *range(10001, 20000), 52365)
"""Ports that Ray has for its dashboard, its clients, its workers and its agents."""

_ANSWER_SECONDS: Final = 10
"""How long a head may take to say whether it takes the token; chosen."""


def node(
    *,
    address: str | None = None,
    head: bool = False,
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 6379,
    store_bytes: str | None = None,
    temp_dir: Path | None = None,
    calibrate: bool = False,
) -> None:
    """Join this machine to a cluster, and compute until Ctrl-C or SIGTERM.

    Every machine of a cluster needs the same token (RAY_AUTH_TOKEN, or ~/.ray/auth_token). Devices,
    threads and folders are set as for a service, by WAVETRIM_... in the environment.

    Options:
        address (HOST:PORT): The head of the cluster to join.
        head: Begin a cluster; the service runs on this machine.
        host: The address under which the cluster reaches this machine.
        port: Port of the head.
        store_bytes (SIZE; 30% of the memory): Ray's shared memory, for matrices that are sent:
            bytes, or a size such as 2GiB.
        temp_dir (DIR): Folder of Ray's logs and sockets, set by the head.
        calibrate: First measure this machine, if that was never done.

    Example:
        ray get-auth-token --generate
        wavetrim node --head --host 10.0.0.1                   # the first machine
        wavetrim node --address 10.0.0.1:6379 --host 10.0.0.2  # each other machine
        WAVETRIM_RAY_ADDRESS=10.0.0.1:6379 wavetrim serve      # the first machine
    """
    _check_address(address, port, head=head, calibrate=calibrate)
    _check_host(host)
    store = None if store_bytes is None else read_size("--store-bytes", store_bytes)
    if find_spec("ray") is None:
        raise CommandFailed("Ray is not installed: pip install 'wavetrim[ray]'")
    check_token(os.environ)
    settings = load_settings(MachineSettings)
    threads = settings.count_threads()
    command = make_command(
        address=address, port=port, host=host, threads=threads, store_bytes=store,
        temp_dir=temp_dir,
    )  # fmt: skip
    options = replace(settings.make_options(), cpu_threads=threads)
    code = Path(wavetrim.__file__).parents[1]
    environment = make_environment(os.environ, options, code=code)
    if address is not None:
        _check_admission(address, environment)
    if calibrate:
        _measure_if_new()
    os.execve(command[0], command, environment)  # noqa: S606 - Ray's own command, by its path


def _check_address(address: str | None, port: int, *, head: bool, calibrate: bool) -> None:
    """Make sure of the head's address, or of its port if this is the head."""
    if (address is None) == (not head):
        raise CommandRefused("node takes either --head or --address HOST:PORT")
    if head and calibrate:
        raise CommandRefused("--calibrate is for nodes: the head computes nothing")
    if head and port in _RAYS_PORTS:
        raise FieldError("--port", port, "none of Ray's own, 8265, 10001 to 19999 and 52365")
    try:
        if address is not None:
            check_ray_address(address)
    except ValueError as error:
        raise CommandRefused(f"--address: {error}") from error


def _check_host(host: str) -> None:
    """Make sure that this machine has its address: else Ray tries it for long, with a traceback."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, 0), family=family).close()
    except OSError as error:
        limit = "an address of this machine, under which the others reach it"
        raise FieldError("--host", host, limit) from error


def _check_admission(address: str, environment: Mapping[str, str]) -> None:
    """Ask the head whether it takes this machine's token: of a refusal Ray has only a traceback.

    A head that does not answer is left to Ray, which waits for it.
    """
    command = [sys.executable, "-m", "ray.scripts.scripts", "status", "--address", address]
    try:
        said = subprocess.run(  # noqa: S603 - Ray's own command; the address was checked
            command, env=environment, capture_output=True, timeout=_ANSWER_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return
    if b"AuthenticationError" in said.stderr:
        message = (
            f"the cluster at {address} refuses the token of this machine (RAY_AUTH_TOKEN, or "
            "~/.ray/auth_token); it must be the same on every machine of the cluster"
        )
        raise CommandRefused(message)


def _measure_if_new() -> None:
    """Calibrate, as that command does, unless a profile of this machine is stored."""
    from wavetrim.service.cli.commands.calibrate import calibrate

    profile = find_machine().find_profile()
    if any(one.measured_at is None for one in profile.gpus or (profile,)):
        calibrate()
