"""Makes a machine a node: `ray start` with the options that wavetrim needs.

Anyone who reaches Ray's ports can run code, so there is no start without a token, and no dashboard.
The store lies in shared memory. Without enough of it Ray would use files on disk; that is refused.
"""

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from wavetrim.scheduler.errors import FieldError
from wavetrim.scheduler.options import MachineOptions

OPTIONS_VARIABLE: Final = "WAVETRIM_NODE_OPTIONS"
"""Environment variable with the options of the node's engine, as JSON."""

RESOURCE: Final = "wavetrim"
"""Ray's resource of the nodes that compute for wavetrim; each has one."""

SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - where Ray has its store

LEAST_STORE_BYTES: Final = 128 * 2**20
"""A smaller store would cut operands into parts of less than 16 MiB; chosen."""

_STORE_SHARE: Final = 0.3
"""Default share of the machine's memory for the store, the same as Ray's."""

_SHARED_SHARE: Final = 0.9
"""Most of the free shared memory that the store may take; chosen."""

_RAY: Final = (
    "import sys; sys.modules['grpc'] = None; from ray.scripts.scripts import main; sys.exit(main())"
)
"""Ray's command without its client server, which nobody here calls.

Where grpcio is installed a head would start one: always at port 10001, so that a second head on the
machine ends, and not at all where Python is in a folder with spaces, so that the head ends, too.
"""


class NodeRefused(FieldError):
    """A machine cannot become a node as it is."""


def check_token(environment: Mapping[str, str]) -> None:
    """Make sure that the cluster has a token.

    Raises:
        NodeRefused: There is none.
    """
    named = environment.get("RAY_AUTH_TOKEN_PATH")
    path = Path(named) if named else Path.home() / ".ray" / "auth_token"
    if not environment.get("RAY_AUTH_TOKEN") and not path.is_file():
        limit = (
            f"set, or {path} be there, on every machine of the cluster: who reaches Ray's ports "
            "runs code (`ray get-auth-token --generate` makes one)"
        )
        raise NodeRefused("RAY_AUTH_TOKEN", None, limit)


def find_store_bytes(wanted: int | None) -> int:
    """The size of the store; it must fit into shared memory.

    Raises:
        NodeRefused: It does not.
    """
    free = int(_SHARED_SHARE * shutil.disk_usage(SHARED_MEMORY).free)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    size = min(int(_STORE_SHARE * memory), free) if wanted is None else wanted
    if not LEAST_STORE_BYTES <= size <= free:
        limit = (
            f"at least {LEAST_STORE_BYTES} and at most {free}, what {SHARED_MEMORY} has free "
            "(a container has 64 MiB unless told otherwise: --shm-size)"
        )
        raise NodeRefused("store_bytes", size, limit)
    return size


def make_command(
    *,
    address: str | None,
    port: int,
    host: str,
    threads: int,
    store_bytes: int | None,
    temp_dir: Path | None = None,
) -> list[str]:
    """The command that runs the node until it is ended.

    Args:
        address: The head's address; None if this is the head.
        port: The head's port, if this is the head.
        host: The address under which others reach this machine.
        threads: Processors that engines here may use; the head has no engine.
        store_bytes: Size of Ray's store; None for 30% of the memory.
        temp_dir: Folder of Ray's logs and sockets; None for Ray's own.

    Raises:
        NodeRefused: There is not enough shared memory.
    """
    command = [
        sys.executable, "-c", _RAY, "start", "--block", "--disable-usage-stats",
        "--node-ip-address", host, "--include-log-monitor", "false",
        "--object-store-memory", str(find_store_bytes(store_bytes)),
    ]  # fmt: skip
    if temp_dir is not None:
        command += ["--temp-dir", str(temp_dir)]
    if address is None:
        return [
            *command, "--head", "--port", str(port), "--num-cpus", "0",
            "--include-dashboard", "false",
        ]  # fmt: skip
    return [
        *command, "--address", address, "--num-cpus", str(threads),
        "--resources", json.dumps({RESOURCE: 1}),
    ]  # fmt: skip


def make_environment(
    environment: Mapping[str, str], options: MachineOptions, *, code: Path
) -> dict[str, str]:
    """The environment of the node's processes, with the options of its engine.

    Raises:
        NodeRefused: WAVETRIM_STALL_SECONDS, a setting of services, is no number above 0.
    """
    stall = environment.get("WAVETRIM_STALL_SECONDS") or "60"
    try:
        is_positive = float(stall) > 0
    except ValueError:
        is_positive = False
    if not is_positive:
        raise NodeRefused("WAVETRIM_STALL_SECONDS", stall, "a number of seconds greater than 0")
    paths = [str(code), environment.get("PYTHONPATH", "")]
    return {
        **environment,
        OPTIONS_VARIABLE: replace(options, stall_seconds=float(stall)).as_json(),
        "RAY_AUTH_MODE": "token",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }
