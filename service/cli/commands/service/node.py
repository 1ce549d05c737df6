"""`wavetrim node`: join this machine to a Ray cluster, to compute for a service elsewhere."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from wavetrim.service.settings import Settings

EXAMPLES: Final = """[bold]Examples[/]

ray get-auth-token --generate
wavetrim node --head --host 10.0.0.1
WAVETRIM_RAY_ADDRESS=10.0.0.1:6379 wavetrim serve
wavetrim node --address 10.0.0.1:6379 --host 10.0.0.2 --calibrate
"""


def node(
    *,
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The head of the cluster to join.")
    ] = None,
    head: Annotated[
        bool, typer.Option("--head", help="Begin a cluster; the service runs on this machine.")
    ] = False,
    host: Annotated[
        str, typer.Option(help="The address under which the cluster reaches this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the head.")] = 6379,
    store_bytes: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="BYTES",
            help="Ray's shared memory, for matrices that are sent.",
            show_default="30% of the memory",
        ),
    ] = None,
    temp_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of Ray's logs and sockets, set by the head."),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option("--calibrate", help="First measure this machine, if that was never done."),
    ] = False,
) -> None:
    """Join this machine to a cluster, and compute until Ctrl-C or SIGTERM.

    Every machine of a cluster needs the same token (RAY_AUTH_TOKEN, or ~/.ray/auth_token). Devices,
    threads and folders are set as for a service, by WAVETRIM_... in the environment.
    """
    import wavetrim
    from wavetrim.service.cli.exits import CommandFailed, ExitCode
    from wavetrim.service.cli.machine import count_threads, load_settings

    if (address is None) == (not head):
        raise CommandFailed("node takes either --head or --address HOST:PORT", ExitCode.REFUSED)
    if head and calibrate:
        raise CommandFailed("--calibrate is for nodes: the head computes nothing", ExitCode.REFUSED)
    if find_spec("ray") is None:
        raise CommandFailed("Ray is not installed: pip install 'wavetrim[ray]'", ExitCode.FAILED)
    from wavetrim.scheduler.cluster.start import (
        NodeStart,
        check_token,
        make_command,
        make_environment,
    )

    check_token(os.environ)
    settings = load_settings()
    start = NodeStart(address, port, host, count_threads(settings), store_bytes, temp_dir)
    command = make_command(start)
    if calibrate:
        _measure_if_new(settings)
    code = Path(wavetrim.__file__).parents[1]
    environment = make_environment(os.environ, code=code)
    environment |= {
        "WAVETRIM_KERNEL_CACHE_DIR": str(settings.kernel_cache_dir),
        "WAVETRIM_PROFILE_DIR": str(settings.profile_dir),
    }
    if settings.gpu_memory_bytes is not None:
        environment["WAVETRIM_GPU_MEMORY_BYTES"] = str(int(settings.gpu_memory_bytes))
    os.execve(command[0], command, environment)  # noqa: S606 - Ray's own command, by its path


def _measure_if_new(settings: "Settings") -> None:
    """Calibrate, as that command does, unless a profile of this machine is stored."""
    from wavetrim.scheduler.profile.store import find_profile
    from wavetrim.service.cli.commands.machine.calibrate import calibrate
    from wavetrim.service.cli.machine import count_threads, find_devices

    profile = find_profile(
        None,
        devices=find_devices(settings),
        directory=settings.profile_dir,
        cpu_threads=count_threads(settings),
    )
    if any(one.measured_at is None for one in profile.gpus or (profile,)):
        calibrate()
