"""Settings of this machine, and what is wrong with settings, in words."""

import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, ByteSize, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from wavetrim.cpu.threads import count_default_threads
from wavetrim.kernels.device import DEVICES_SETTING
from wavetrim.scheduler.options import MachineOptions
from wavetrim.service.folders import DATA_DIR, find_user_cache, make_absolute

logger = logging.getLogger(__name__)

AbsolutePath = Annotated[Path, AfterValidator(make_absolute)]

MOST_THREADS: Final = 4096
"""As `/v1/plan` takes them: an engine with many more takes all of a system's threads."""

_OTHERS: Final = re.compile(
    r"WAVETRIM_(URL|SERVICE_(HOST|PORT).*|PORT_.+|TEST_.+|CHAOS_.+|FAULTS_.+|NODE_KILLS|COMMIT)"
)
"""Variables that are no settings: the command line's, what Kubernetes sets beside a Service, and
those of the tests."""


REMOVED: Final[Mapping[str, str]] = {
    "WAVETRIM_ACCESS_LOG": "WAVETRIM_LOG_LEVEL=debug logs every request",
    "WAVETRIM_ARENA_IDLE_SECONDS": "unused shared memory is kept for 60 s",
    "WAVETRIM_ARENA_POISON": "it was for tests",
    "WAVETRIM_ARENA_SLAB_BYTES": "it follows WAVETRIM_ARENA_BYTES",
    "WAVETRIM_DATABASE_WAIT_SECONDS": "a start waits for its database for 30 s",
    "WAVETRIM_GRPC_MAX_MESSAGE_BYTES": "call /v2 over HTTP, which takes longer bodies",
    "WAVETRIM_GRPC_PORT": "gRPC is gone; call /v2 over HTTP",
    "WAVETRIM_JOB_ATTEMPTS": "a job is tried three times",
    "WAVETRIM_MAX_BODIES": "32 bodies over 64 KiB are received at once",
    "WAVETRIM_MAX_FINISHED_JOBS": "50,000 are remembered, for WAVETRIM_JOB_TTL_SECONDS",
    "WAVETRIM_RESERVE_BYTES": "64 MiB stay free beside the matrices",
    "WAVETRIM_RESIDENT_SHARE": "it is half of WAVETRIM_GPU_MEMORY_BYTES",
    "WAVETRIM_UPLOAD_IDLE_SECONDS": "silent callers are given up after 60 s",
    "WAVETRIM_V2_SHARED_MEMORY": "no shared memory is registered; call /v2 over HTTP",
}
"""Settings of earlier versions, and what does their work now, in words."""

_HIDDEN: Final = frozenset({"api_key", "database_url"})
"""Settings that may hold a secret: their values are not repeated."""


def _place_in(folder: str, description: str) -> Any:
    return Field(
        default_factory=lambda data: Path(data["data_dir"]) / folder,
        json_schema_extra={"default": f"{{data_dir}}/{folder}"},
        description=description,
    )


class MachineSettings(BaseSettings):
    """The settings of this machine: all that a product in the caller's own process reads.

    Where no variable is set, `local_options` knows their defaults without this class.
    """

    model_config = SettingsConfigDict(
        env_prefix="WAVETRIM_", env_ignore_empty=True, frozen=True, hide_input_in_errors=True
    )

    data_dir: AbsolutePath = Field(
        default=DATA_DIR, description="Folder of the database and the matrices."
    )
    kernel_cache_dir: AbsolutePath = _place_in(
        "kernels",
        "Where compiled kernels are kept. Products without a service use the user's cache, "
        "`~/.cache/wavetrim`, unless this or `WAVETRIM_DATA_DIR` is set.",
    )
    profile_dir: AbsolutePath = _place_in(
        "profiles", "Where `wavetrim calibrate` keeps what it measured."
    )
    gpu_memory_bytes: ByteSize | None = Field(
        default=None,
        gt=0,
        description="The most GPU memory that is used; without it, what is free.",
    )
    cpu_threads: int | None = Field(
        default=None,
        ge=1,
        le=MOST_THREADS,
        description="Threads of the CPU part; without it, as many as there are usable cores, and "
        "at most what `OMP_NUM_THREADS` and such (OPENBLAS, MKL, BLIS) allow.",
    )
    devices: str | None = Field(
        default=None,
        pattern=DEVICES_SETTING,
        description="GPUs to use: `none`, indices such as `0,1`, or UUIDs (`GPU-…`, `MIG-…`) or "
        "their beginnings; without it, all.",
    )

    @property
    def own_cache_dir(self) -> Path:
        """Where a product without a service keeps what it compiles.

        The user's cache, unless a setting names a folder: the working folder is left as it was.
        """
        if self.model_fields_set & {"data_dir", "kernel_cache_dir"}:
            return self.kernel_cache_dir
        return find_user_cache()

    def make_options(self) -> MachineOptions:
        """What a process that computes may use."""
        names = {field.name for field in fields(MachineOptions)}
        return MachineOptions(**self.model_dump(include=names))

    def count_threads(self) -> int:
        """Threads of the CPU part."""
        return self.cpu_threads or count_default_threads()

    def as_environment(self) -> dict[str, str]:
        """The variables by which another process has these settings."""
        given = self.model_dump(exclude_none=True, include=set(MachineSettings.model_fields))
        return {f"WAVETRIM_{name.upper()}": str(value) for name, value in given.items()}

    @model_validator(mode="after")
    def _warn_of_unknown(self) -> Self:
        for name in os.environ:
            if name.startswith("WAVETRIM_"):
                warn_if_unknown(name)
        return self


@cache
def warn_if_unknown(variable: str) -> None:
    """Warn, once, of a variable that looks like a setting and is none."""
    from wavetrim.service.settings import Settings

    known = [f"WAVETRIM_{name.upper()}" for name in Settings.model_fields]
    if variable in known or _OTHERS.fullmatch(variable):
        return
    if variable in REMOVED:
        logger.warning("%s is no setting any more: %s", variable, REMOVED[variable])
        return
    near = get_close_matches(variable, known, n=1)
    logger.warning(
        "%s is no setting, and is ignored%s", variable, f"; is it {near[0]}?" if near else ""
    )


def list_refused(error: ValidationError) -> Iterator[tuple[str, object, str, str]]:
    """Each setting that is refused: variable, value, what it must be, and these in a sentence."""
    for detail in error.errors():
        if detail["type"] == "default_factory_not_called":
            continue  # its default could not be made because of another fault
        name, message = str(detail["loc"][0]), detail["msg"]
        variable, value = f"WAVETRIM_{name.upper()}", "…" if name in _HIDDEN else detail["input"]
        limit = describe_limit(message)
        told = f" is {value!r}{say_limit(limit, message)}"
        is_own = detail["type"] == "value_error"  # a sentence of ours
        yield variable, value, limit, f"{variable}: {limit}" if is_own else variable + told


def describe_limit(message: str) -> str:
    """What a value must be, taken from pydantic's message."""
    if message == "Extra inputs are not permitted":
        return "left out: there is no such field"
    if message.startswith("could not "):  # pydantic's messages about sizes in bytes
        return "a size in bytes, such as 4GiB"
    told = message.removeprefix("Input should be ").removeprefix("Value error, ")
    return told.split(", unable")[0]


def say_limit(limit: str, message: str) -> str:
    """The end of a sentence about a value: the limit that `describe_limit` found in a message."""
    # Some of pydantic's messages say what a value must be, others are whole sentences.
    return f": {limit}" if limit == message else f"; it must be {limit}"
