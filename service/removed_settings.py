"""Settings of earlier versions: what does their work now, and which of them refuse the start.

One that opened or closed a door (a key, a token, a port) must not be ignored: who set it would
believe that the door is still as he left it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from wavetrim.service.errors import SettingRefused


@dataclass(frozen=True, slots=True)
class Removed:
    """A setting that is no more.

    Attributes:
        instead: What does its work now, in words.
        refused: Whether the service does not start while it is set.
    """

    instead: str
    refused: bool = False


REMOVED: Final[Mapping[str, Removed]] = {
    "WAVETRIM_ACCESS_LOG": Removed("WAVETRIM_LOG_LEVEL=debug logs every request"),
    "WAVETRIM_ARENA_IDLE_SECONDS": Removed("unused shared memory is kept for 60 s"),
    "WAVETRIM_ARENA_POISON": Removed("it was for tests"),
    "WAVETRIM_ARENA_SLAB_BYTES": Removed("it follows WAVETRIM_ARENA_BYTES"),
    "WAVETRIM_DATABASE_WAIT_SECONDS": Removed("a start waits for its database for 30 s"),
    "WAVETRIM_GRPC_MAX_MESSAGE_BYTES": Removed("call /v2 over HTTP, which takes longer bodies"),
    "WAVETRIM_GRPC_PORT": Removed("gRPC is gone; call /v2 over HTTP", refused=True),
    "WAVETRIM_JOB_ATTEMPTS": Removed("a job is tried three times"),
    "WAVETRIM_MAX_BODIES": Removed("32 bodies over 64 KiB are received at once"),
    "WAVETRIM_MAX_FINISHED_JOBS": Removed("50,000 are remembered, for WAVETRIM_JOB_TTL_SECONDS"),
    "WAVETRIM_RESERVE_BYTES": Removed("64 MiB stay free beside the matrices"),
    "WAVETRIM_RESIDENT_SHARE": Removed("it is half of WAVETRIM_GPU_MEMORY_BYTES"),
    "WAVETRIM_UPLOAD_IDLE_SECONDS": Removed("silent callers are given up after 60 s"),
    "WAVETRIM_V2_SHARED_MEMORY": Removed(
        "no shared memory is registered; call /v2 over HTTP", refused=True
    ),
}


def refuse_removed(environment: Mapping[str, str]) -> None:
    """Makes sure that no setting is set that once opened or closed a door.

    Raises:
        SettingRefused: One is.
    """
    for variable, value in environment.items():
        removed = REMOVED.get(variable.upper())
        if removed is not None and removed.refused and value:
            raise SettingRefused(variable, value, f"left out, as it is gone: {removed.instead}")
