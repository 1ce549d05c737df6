"""Settings of the service; those of its machine are in `machine_settings`."""

import os
import re
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    ByteSize,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from wavetrim.service.errors import SettingRefused
from wavetrim.service.machine_settings import REMOVED, AbsolutePath, MachineSettings
from wavetrim.service.telemetry.logs import LogFormat

GIB: Final = 2**30
DAY_SECONDS: Final = 86_400

LEAST_KEY_CHARACTERS: Final = 16
"""Shortest API key: a shorter one could be guessed."""

_REFUSED: Final = frozenset({"WAVETRIM_GRPC_PORT", "WAVETRIM_V2_SHARED_MEMORY"})
"""Settings of earlier versions that opened a door: who set one must not believe that it is open."""

_ADDRESS: Final = re.compile(r"[^\s:/]+:(\d{1,5})", re.ASCII)
_MOST_PORT: Final = 65535


def check_ray_address(address: str) -> str:
    """The address, if it is a host and a port.

    Raises:
        ValueError: It is not; the message says what it must be.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None or not 1 <= int(found[1]) <= _MOST_PORT:
        limit = f"HOST:PORT, a name or an IPv4 address and a port from 1 to {_MOST_PORT}"
        raise ValueError(f"it is {address!r}; it must be {limit}")
    return address


class Settings(MachineSettings):
    """Every setting of the service; `WAVETRIM_PORT=9000` in the environment sets `port`.

    Sizes in bytes also take units: `WAVETRIM_MAX_MATRIX_BYTES=4GiB`.
    """

    host: str = Field(default="127.0.0.1", description="Address to listen on.", min_length=1)
    port: int = Field(
        default=8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one."
    )
    tcp: Literal["on", "off"] = Field(
        default="on", description="`off` listens on the Unix socket only, not on host and port."
    )
    unix_socket: AbsolutePath | None = Field(
        default=None,
        description="Path of a Unix socket to listen on as well, for this machine's callers.",
    )
    tls_certificate: AbsolutePath | None = Field(
        default=None, description="PEM file of the certificate chain; with it, TCP speaks TLS."
    )
    tls_key: AbsolutePath | None = Field(
        default=None, description="PEM file of the certificate's key, unencrypted."
    )
    api_key_file: AbsolutePath | None = Field(
        default=None,
        description="File whose only line is the API key, in place of WAVETRIM_API_KEY: the "
        "environment of a process can be read by others of its user.",
    )
    api_key: SecretStr | None = Field(
        default=None,
        validate_default=True,
        description="Bearer token asked for on every /v1 and /v2 call, of at least 16 printable "
        "characters; it, or an issuer of tokens, is needed to listen on anything but loopback.",
    )
    jwt_issuer: str | None = Field(
        default=None,
        min_length=1,
        description="Issuer of tokens (JWT) that callers may send in place of a key: their `iss`. "
        "Needs the next two, and `wavetrim[jwt]`.",
    )
    jwt_audience: str | None = Field(
        default=None, min_length=1, description="What the tokens' `aud` must name: this service."
    )
    jwt_jwks: str | None = Field(
        default=None,
        min_length=1,
        description="Where the issuer's public keys are (JWKS): an https:// URL, an http:// one "
        "of this machine, or a file.",
    )
    metrics: Literal["open", "key", "off"] = Field(
        default="open",
        description="Who may read /metrics: `open` anybody who reaches the service, `key` callers "
        "with the API key or a key of the scope admin, `off` nobody.",
    )
    cors_origins: str | None = Field(
        default=None,
        pattern=r"^(\*|https?://[^\s,/]+(,https?://[^\s,/]+)*)$",
        description="Origins whose web pages may call the service, such as `https://a.example,"
        "https://b.example:8443`, or `*` for all; without it, browsers let none.",
    )
    docs: Literal["on", "off"] = Field(
        default="on",
        description="`off` closes /docs and /openapi.json, which anybody may read otherwise.",
    )
    database_url: str | None = Field(
        default=None,
        description="SQLAlchemy URL of the database; without it, SQLite in the data folder.",
    )
    max_matrix_bytes: ByteSize = Field(
        default=ByteSize(64 * GIB),
        gt=0,
        description="The largest .npy file that is stored, in bytes.",
    )
    max_storage_bytes: ByteSize = Field(
        default=ByteSize(256 * GIB),
        gt=0,
        description="The most that all matrices may take, in bytes.",
    )
    arena_bytes: ByteSize | None = Field(
        default=None,
        ge=0,
        description="The most shared memory for matrices in use, 0 for none; without it, a "
        "quarter of what the system allows.",
    )
    matrix_ttl_seconds: int = Field(
        default=30 * DAY_SECONDS,
        ge=0,
        description="How long a matrix is kept that no job uses; 0 keeps it until it is deleted.",
    )
    job_ttl_seconds: int = Field(
        default=30 * DAY_SECONDS,
        ge=0,
        description="How long a finished job is remembered; 0 remembers it for ever.",
    )
    max_queued_jobs: int = Field(
        default=1000, ge=1, description="The most jobs of a caller that may wait."
    )
    max_connections: int | None = Field(
        default=None,
        ge=1,
        description="The most connections at once; without it, three quarters of the descriptors "
        "that the process may open, and at most all but 56.",
    )
    ray_address: Annotated[str, AfterValidator(check_ray_address)] | None = Field(
        default=None,
        description="Address of a Ray cluster, such as `10.0.0.1:6379`: its nodes that were "
        "started by `wavetrim node` compute, too. This machine must be one of the cluster's.",
    )
    job_timeout_seconds: float = Field(
        default=3600.0, gt=0, description="How long one try of a job may take."
    )
    stall_seconds: float = Field(
        default=60.0,
        gt=0,
        description=(
            "How long a GPU may make no progress in a product, or 20 times as long as it was "
            "planned to take, if that is more. Then engine and product are started again."
        ),
    )
    drain_seconds: float = Field(
        default=30.0, ge=0, description="How long running jobs may go on after SIGTERM."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="The least severe messages that are logged; `debug` logs every request, too.",
    )
    log_format: LogFormat = Field(
        default="text",
        description="How a line of the log is written: as `text`, or as a `json` object.",
    )
    traces: Literal["off", "otlp"] = Field(
        default="off",
        description="`otlp` sends a span of each request and of each phase of its product by "
        "OpenTelemetry, whose own variables say where to. Needs `wavetrim[otel]`.",
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_removed(cls, given: Any) -> Any:
        for variable, value in os.environ.items():
            if (name := variable.upper()) in _REFUSED and value:
                raise SettingRefused(variable, value, f"left out, as it is gone: {REMOVED[name]}")
        return given

    @field_validator("api_key_file")
    @classmethod
    def _check_key_file(cls, path: Path | None) -> Path | None:
        if path is not None:
            _check_key(read_key_file(path))
        return path

    @field_validator("api_key")
    @classmethod
    def _find_key(cls, key: SecretStr | None, known: ValidationInfo) -> SecretStr | None:
        path = known.data.get("api_key_file")
        if path is not None and key is not None:
            raise ValueError("it is set, and so is WAVETRIM_API_KEY_FILE; one must be left out")
        if path is not None:
            key = SecretStr(read_key_file(path))
        if key is not None:
            _check_key(key.get_secret_value())
        return key

    @property
    def database(self) -> str:
        """The database's URL: `database_url`, or the SQLite file in the data folder."""
        return self.database_url or f"sqlite:///{self.data_dir / 'wavetrim.db'}"

    @cached_property
    def names_callers(self) -> bool:
        """Whether every call needs a key or a token, even if no caller's key was made."""
        return self.api_key is not None or self.jwt_issuer is not None

    @property
    def matrix_dir(self) -> Path:
        """Folder of the matrices."""
        return self.data_dir / "matrices"


def is_loopback(host: str) -> bool:
    """Whether a host, by name or address, is this machine, which no other one reaches there."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def read_key_file(path: Path) -> str:
    """The key in a file, without the end of its line.

    Raises:
        ValueError: The file cannot be read; the message says which one, and why.
    """
    try:
        return path.expanduser().read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ValueError(f"it is {path}; it must be a file that can be read ({reason})") from error


def _check_key(key: str) -> None:
    """Refuse a key that is short or not plain; the message does not contain it."""
    if len(key) < LEAST_KEY_CHARACTERS or not key.isprintable() or key != key.strip():
        raise ValueError(
            f"it has {len(key)} characters; it must have at least {LEAST_KEY_CHARACTERS}, "
            "all of them printable, and no space at its ends"
        )
