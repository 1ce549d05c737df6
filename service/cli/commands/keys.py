"""`wavetrim keys`: keys of several callers, made, listed and revoked while the service runs.

Options:
    name (NAME): Name of the key.
"""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import typer
from sqlalchemy import Engine

from wavetrim.service.cli import display
from wavetrim.service.cli.exits import CommandRefused
from wavetrim.service.cli.machine import load_settings
from wavetrim.service.cli.options import DataDir, read_size
from wavetrim.service.errors import FieldProblem
from wavetrim.service.settings import Settings
from wavetrim.service.storage.database.database import open_database
from wavetrim.service.storage.folder.data_folder import keep_private
from wavetrim.service.tenants.api_keys import (
    add_key,
    limit_key,
    list_keys,
    renew_key,
    revoke_key,
)
from wavetrim.service.tenants.tenant import SCOPES, Quota

_NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaOptions:
    """The quotas of a key.

    Quotas:
        max_stored_bytes (SIZE; none): The most that its matrices may take, such as 20GiB.
        max_queued_jobs (COUNT; none): The most of its jobs that may wait.
        max_bytes_in_flight (SIZE; none): The most memory that its uploads, products in one call
            and leases may take at once.
    """

    max_stored_bytes: str | None = None
    max_queued_jobs: str | None = None
    max_bytes_in_flight: str | None = None

    def read(self) -> dict[str, int | None]:
        """The quotas that are named; None removes one."""
        named = {name: text for name, text in asdict(self).items() if text is not None}
        return {name.removeprefix("max_"): _read_most(name, text) for name, text in named.items()}


def keys() -> None:
    """Make, list and revoke keys of callers, each with a name, scopes and quotas.

    A running service notices changes within two seconds. The database stores only hashes of keys.
    """


def add(
    name: str,
    *,
    scope: list[str] = ["read", "compute"],  # noqa: B006
    quotas: QuotaOptions,
    data_dir: DataDir = None,
) -> None:
    """Make a key and print it, this once. From then on every call of the service needs a key.

    Options:
        name (NAME): Name of the caller.
        scope (SCOPE): read (look), compute (store, compute, remove) or admin (all); may be
            repeated.

    Example:
        wavetrim keys add ada
    """
    if not _NAME.fullmatch(name):
        raise FieldProblem("name", name, "1 to 64 letters, digits, dots, dashes, _ and @")
    for one in scope:
        if one not in SCOPES:
            raise FieldProblem("scope", one, f"one of {', '.join(SCOPES)}")
    quota = Quota(**quotas.read())
    with _open(data_dir) as database:
        typer.echo(add_key(database, name, scope, quota))


def limit(name: str, *, quotas: QuotaOptions, data_dir: DataDir = None) -> None:
    """Change quotas of a key. "none" removes a quota; those that are not named stay.

    Example:
        wavetrim keys add ada
        wavetrim keys limit ada --max-stored-bytes 20GiB
    """
    most = quotas.read()
    if not most:
        raise CommandRefused("keys limit takes a quota, such as --max-stored-bytes 20GiB")
    with _open(data_dir) as database:
        limit_key(database, name, most)


def list_(*, data_dir: DataDir = None) -> None:
    """List the keys' names, scopes, times and quotas; the keys themselves are not stored.

    Example:
        wavetrim keys list
    """
    with _open(data_dir) as database:
        for key in list_keys(database):
            revoked = [] if key.revoked_at is None else [f"revoked {_show(key.revoked_at)}"]
            scopes, made = ",".join(sorted(key.tenant.scopes)), f"made {_show(key.created_at)}"
            quotas = _show_quotas(key.tenant.quota)
            typer.echo("  ".join((key.tenant.name, scopes, made, *revoked, *quotas)))


def renew(name: str, *, data_dir: DataDir = None) -> None:
    """Make a new key for a name and print it, this once. The old key is refused from then on.

    Example:
        wavetrim keys add ada
        wavetrim keys renew ada
    """
    with _open(data_dir) as database:
        typer.echo(renew_key(database, name))


def revoke(name: str, *, data_dir: DataDir = None) -> None:
    """Refuse a key from now on. Its matrices and jobs stay; its name cannot be used again.

    Example:
        wavetrim keys add ada
        wavetrim keys revoke ada
    """
    with _open(data_dir) as database:
        revoke_key(database, name)
    typer.echo(f"revoked {name}")


GROUPS: Final = {
    "keys": {"add": add, "limit": limit, "list": list_, "renew": renew, "revoke": revoke}
}


@contextlib.contextmanager
def _open(data_dir: Path | None) -> Iterator[Engine]:
    """The service's database."""
    with keep_private():
        database = open_database(
            load_settings(Settings, data_dir=data_dir).database, upgrades=False
        )
        try:
            yield database
        finally:
            database.dispose()


def _read_most(name: str, text: str) -> int | None:
    option = f"--{name.replace('_', '-')}"
    if text == "none":
        return None
    if name != "max_queued_jobs":
        return read_size(option, text)
    if not text.isdecimal() or int(text) >= 2**63:
        raise FieldProblem(option, text, "a count, or none")
    return int(text)


def _show_quotas(quota: Quota) -> Iterator[str]:
    """A key's quotas in words."""
    if quota.stored_bytes is not None:
        yield f"stores at most {display.format_bytes(quota.stored_bytes)}"
    if quota.queued_jobs is not None:
        yield f"queues at most {quota.queued_jobs} jobs"
    if quota.bytes_in_flight is not None:
        yield f"at most {display.format_bytes(quota.bytes_in_flight)} in flight"


def _show(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
